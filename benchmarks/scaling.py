"""How time and memory grow with clients, workers and the size of the network: results/scaling.json.

    python benchmarks/scaling.py

Every case runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from fedskew import Experiment, Training
from fedskew.bench.rounds import megabytes
from fedskew.bench.workloads import random_images
from fedskew.data.partition import IID
from fedskew.engines.choose import Choice
from fedskew.engines.pool import Pool
from fedskew.evaluate import Timetable
from fedskew.step import SGD

HERE = Path(__file__).parent
SAMPLES = 60_000
CLIENTS = (10, 100, 1000, 10_000)
WIDTHS = (64, 256, 1024)
COLUMNS = ("clients", "workers", "width", "start", "first round", "later round", "megabytes")


def experiment(clients: int, workers: int, width: int) -> Experiment:
    """60,000 images 28 x 28 dealt to the clients; a tenth of them, at most 1,000, takes part in a round."""
    return Experiment(
        random_images(SAMPLES, (1, 28, 28), "noise"),
        IID(clients=clients),
        "mlp",
        participation=max(min(0.1, 1000 / clients), 2 / clients),
        training=Training(epochs=1, batch=32),
        solver=SGD(0.05),
        rounds=3,
        timetable=Timetable(personal=0),
        engine=Choice("pool" if workers > 1 else "serial", workers, backend="native"),
        model_options={"hidden": (width,)},
    )


def case(clients: int, workers: int, width: int) -> dict[str, float]:
    """Seconds to partition and start, of the first round, of the others; and memory."""
    plan = experiment(clients, workers, width)
    data = plan.dataset()
    begin = time.perf_counter()
    with plan.session(0, data) as session:
        laps = [time.perf_counter() - begin]
        for _ in session.rounds():
            laps.append(time.perf_counter() - begin)
        machine = session.engine
        used = megabytes(machine.pids() if isinstance(machine, Pool) else [])
    figures = (clients, workers, width, laps[0], laps[1] - laps[0], (laps[3] - laps[1]) / 2, used)
    return dict(zip(COLUMNS, (round(figure, 3) for figure in figures), strict=True))


def cases() -> list[tuple[int, int, int]]:
    """Clients by workers at one width, then widths."""
    return [(k, w, 64) for k in CLIENTS for w in (1, 2)] + [(100, 2, width) for width in WIDTHS[1:]]


def main() -> None:
    """All cases, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--case", type=int, nargs=3, metavar=("CLIENTS", "WORKERS", "WIDTH"))
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "scaling.json")
    told = parser.parse_args()
    if told.case:
        print(json.dumps(case(*told.case)))
        return
    rows = []
    for clients, workers, width in cases():
        words = [sys.executable, __file__, "--case", str(clients), str(workers), str(width)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
        print(rows[-1], flush=True)
    told.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
