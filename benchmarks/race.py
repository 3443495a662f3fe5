"""fedskew against other simulators and a careful PyTorch loop, in turn, on the same data, owners and network.

    python benchmarks/race.py W1 W2 --venvs FOLDER

FOLDER holds a virtual environment for every peer: flwr (flwr[simulation], torch), pfl (pfl[pytorch]) and fedjax.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from fedskew import models
from fedskew.bench import Peaks, Workload, peaks
from fedskew.bench.workloads import workload
from fedskew.data.dataset import Dataset
from fedskew.engines.choose import Choice
from fedskew.engines.pool import available

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))
from setting import Setting, arrays, save  # noqa: E402  (peers read it without the package)

CONTENDERS = {
    "W1": ("fedskew", "loop", "fedjax", "flwr", "pfl"),
    "W2": ("fedskew", "loop", "loop, channels last", "pfl", "flwr", "fedjax"),
    "W3": ("fedskew", "loop"),
    "W4": ("fedskew", "loop", "loop, channels last"),
    "W5": ("fedskew", "loop", "loop, channels last"),
}
NAMES = {"flwr": "flwr + Ray", "pfl": "pfl, 2 processes", "loop": "PyTorch loop, 2 processes"}


class Result(NamedTuple):
    """What a contender did in one repetition."""

    seconds: list[float]  # a round of the nominal size
    loss: float  # of its final network on the test set


def setting(work: Workload, data: Dataset, rounds: int) -> Setting:
    """The workload for `rounds` rounds and one that warms up."""
    plan = work.experiment("fedavg", Choice())
    federation = plan.federation(data, 0)
    start = plan.algorithm(federation, 0).initial
    drawn = [list(federation.participants(0, number, work.participation)) for number in range(rounds + 1)]
    moved = np.full(len(data.y), -1)
    moved[data.train] = np.arange(len(data.train))
    return Setting(
        data.x[data.train].numpy(),
        data.y[data.train].numpy(),
        [moved[own] for own in federation.partition.train],
        drawn,
        [value.numpy() for value in start.values()],
        *(work.model, work.training.epochs, work.training.batch),
        *(work.solver.lr, work.solver.momentum, work.solver.weight_decay),
        available(),
    )


def command(contender: str, venvs: Path, folder: Path, processes: int) -> list[str]:
    """How a contender is started."""
    kind, *options = contender.split(", ")
    script = str(HERE / "peers" / f"run_{kind}.py")
    if kind in ("fedskew", "loop"):
        return [sys.executable, script, str(folder), *(f"--{o.replace(' ', '-')}" for o in options)]
    python = str(venvs / kind / "bin" / "python")
    many = ["-m", "torch.distributed.run", f"--nproc_per_node={processes}"] if kind == "pfl" else []
    return [python, *many, script, str(folder)]


def run(contender: str, venvs: Path, given: Setting, work: Workload, data: Dataset) -> Result:
    """One repetition, in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder, given)
        threads = {} if contender == "fedjax" else {"OMP_NUM_THREADS": "1"}
        environment = {**os.environ, **threads, "PYTHONPATH": str(HERE / "peers")}
        words = command(contender, venvs, folder, given.processes)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if not (folder / "times.json").exists():
            raise RuntimeError(f"{contender} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        times = json.loads((folder / "times.json").read_text(encoding="utf-8"))
        end = arrays(folder / "end.npz")
    laps = zip(times["seconds"][1:], times["passes"][1:], strict=True)
    return Result([s * work.passes / passes for s, passes in laps], test_loss(work, data, end))


def test_loss(work: Workload, data: Dataset, weights: list[np.ndarray]) -> float:
    """Cross-entropy of a network with these weights, the same computation for every contender."""
    model = models.model(work.model, None, work.shape)(10)
    named = zip(model.init(0), map(torch.from_numpy, map(np.asarray, weights)), strict=True)
    with torch.no_grad():
        logits = model.forward(dict(named), data.x[data.test], False).logits
    return float(torch.nn.functional.cross_entropy(logits, data.y[data.test]))


def race(
    name: str, venvs: Path, rounds: int, repetitions: int, only: list[str]
) -> Iterator[dict[str, object]]:
    """A row for every contender that is installed."""
    work = workload(name)
    data = work.dataset()
    given = setting(work, data, rounds)
    racers = [c for c in CONTENDERS[name] if (not only or c in only) and _installed(c, venvs)]
    found: dict[str, list[Result]] = {c: [] for c in racers}
    for _ in range(repetitions):
        for contender in racers:
            found[contender].append(run(contender, venvs, given, work, data))
            print(name, contender, found[contender][-1], flush=True)
    best = peaks(available())
    ours = _median(found["fedskew"])
    for contender, results in found.items():
        yield row(name, contender, results, work, ours, best)


def row(
    name: str, contender: str, results: list[Result], work: Workload, ours: float, best: Peaks
) -> dict[str, object]:
    """The figures of one contender, flat."""
    seconds = _median(results)
    gflops = work.passes * work.flops / seconds / 1e9
    return {
        "workload": name,
        "simulator": NAMES.get(contender, contender.replace("loop", NAMES["loop"])),
        "seconds a round": round(seconds, 3),
        "GFLOP/s": round(gflops, 1),
        "% of FMA peak": round(100 * gflops / best.fma, 1) if best.fma else None,
        "times fedskew's": round(seconds / ours, 2),
        "test loss": round(statistics.median(result.loss for result in results), 3),
    }


def _median(results: list[Result]) -> float:
    return statistics.median(second for result in results for second in result.seconds)


def _place(row: dict[str, object]) -> tuple[str, int, str]:
    """Where a row stands: fedskew before the others of its workload."""
    return str(row["workload"]), int(row["simulator"] != "fedskew"), str(row["simulator"])


def _installed(contender: str, venvs: Path) -> bool:
    kind = contender.split(",")[0]
    return kind in ("fedskew", "loop") or (venvs / kind / "bin" / "python").exists()


def main() -> None:
    """Runs the races that are asked for; rows of contenders that do not run stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("workloads", nargs="+", choices=CONTENDERS)
    parser.add_argument("--venvs", type=Path, default=Path("venvs"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "bench.json")
    told = parser.parse_args()
    kept = json.loads(told.out.read_text(encoding="utf-8")) if told.out.exists() else []
    for name in told.workloads:
        made = list(race(name, told.venvs, told.rounds, told.repetitions, told.only))
        fresh = {_place(row) for row in made}
        kept = sorted([row for row in kept if _place(row) not in fresh] + made, key=_place)
        told.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
