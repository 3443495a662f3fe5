"""What a client's task costs beyond training on Flower, ours against Flower's own FedAvg, in turn.

    python benchmarks/flower.py

One deployment (TLS, node keys, loopback, one client per SuperNode) serves both apps, alternating; both train the
same network from the same weights on the same examples. Writes results/flower-overhead.json and the table between
the markers of docs/deploy.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fedskew import build, runs
from fedskew.config import Config, parse
from fedskew.engines.feed import Feed
from fedskew.flower import app, serve
from fedskew.flower.client import Node
from fedskew.flower.deployment import LINK, Deployment
from fedskew.flower.letters import (
    Order,
    pack_answer,
    pack_order,
    to_state,
    unpack_answer,
    unpack_order,
    unpack_reply,
)
from fedskew.flower.link import from_records, to_records
from fedskew.flower.site import simulated
from fedskew.flower.watch import finish
from fedskew.gate import Gate, Limits
from fedskew.store.reader import RunReader

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "results" / "flower-overhead.json", ROOT / "docs" / "deploy.md"
BEGIN, END = "<!-- overhead -->", "<!-- end of overhead -->"
NODES = 4

PACKAGE = "stock_app"
STOCK_PROJECT = app.PYPROJECT.replace("run-dir =", 'folder = ""\nrounds = 1\nrun-dir =')


class Job(NamedTuple):
    """One run: seconds from its submission to its last model, and how good that is."""

    seconds: float
    accuracy: float


def settings(rounds: int, name: str) -> Config:
    """Digits over four clients, all of whom take part."""
    return parse(
        {
            "name": name,
            "split": {"scheme": "labels", "clients": NODES, "per_client": 5},
            "train": {"rounds": rounds, "participation": 1.0},
            "evaluate": {"personal": 0, "every": rounds},
            "engine": {"backend": "autograd"},
        },
        "the benchmark",
    )


def ours(deployment: Deployment, out: Path, rounds: int, number: int) -> Job:
    """FedAvg through fedskew."""
    config = settings(rounds, f"ours-{number}")
    place, written = runs.folder(config, 0, out), out / f"app-{number}"
    serve.begin(config, place, simulated)
    app.write(written, config)
    start = time.perf_counter()
    finish(deployment, written, place, lambda line: None, poll=0.1)
    return Job(time.perf_counter() - start, RunReader(place).metrics()[-1]["global.accuracy"])


def stock(deployment: Deployment, out: Path, rounds: int, number: int) -> Job:
    """FedAvg as Flower brings it."""
    feed, folder = _feed(settings(rounds, "stock")), out / f"stock-{number}"
    _prepare(feed, folder)
    given = f'folder="{folder}" rounds={rounds}'
    start = time.perf_counter()
    deployment.call(["flwr", "run", str(folder / "app"), LINK, "--run-config", given])
    while not (folder / "end.npz").exists():
        if time.perf_counter() - start > 600:
            raise TimeoutError(f"Flower's FedAvg did not end; see {deployment.log('superlink')}")
        time.sleep(0.1)
    seconds = time.perf_counter() - start
    names = feed.algorithm.model.names
    end = {n: torch.from_numpy(v) for n, v in zip(names, np.load(folder / "end.npz").values(), strict=True)}
    test = torch.from_numpy(feed.federation.data.test)
    found = feed.algorithm.predict(end, feed.x[test]).argmax(1)
    return Job(seconds, float((found == feed.federation.data.y[test]).double().mean()))


def _feed(config: Config) -> Feed:
    experiment, federation = build.experiment(config), simulated(config, None)
    return Feed.of(experiment.algorithm(federation, 0), federation, experiment.training)


def _prepare(feed: Feed, folder: Path) -> None:
    """Stock's app, the examples of every client, and the weights to start from."""
    shutil.copytree(Path(__file__).with_name(PACKAGE), folder / "app" / PACKAGE)
    words = {"name": "stock", "package": PACKAGE, "method": "FedAvg", "run_dir": ""}
    (folder / "app" / "pyproject.toml").write_text(STOCK_PROJECT.format(**words))
    (folder / "app" / "LICENSE").write_text(app.LICENSE)
    for client, own in enumerate(feed.federation.partition.train):
        chosen = torch.from_numpy(own)
        x = feed.x[chosen].flatten(1).numpy()
        np.savez(folder / f"{client}.npz", x=x, y=feed.federation.data.y[chosen].numpy())
    names = ("0.weight", "0.bias", "2.weight", "2.bias")
    start = zip(names, feed.algorithm.initial.values(), strict=True)
    np.savez(folder / "start.npz", **{name: value.numpy() for name, value in start})


def in_process(folder: Path, tasks: int) -> dict[str, float]:
    """Milliseconds of a client's task without Flower: its training alone, and all that fedskew adds to it."""
    config = settings(1, "alone")
    feed = _feed(config)
    algorithm, node = feed.algorithm, Node(config, simulated, 0, NODES, folder)
    message = algorithm.message(algorithm.init(), 0)
    gate = Gate.of(algorithm, feed.x.shape[1:], Limits())
    training, whole = [], []
    for task in range(tasks + 1):
        start = time.perf_counter()
        algorithm.local(message, algorithm.fresh(0), feed.client(0, 0))
        training.append(time.perf_counter() - start)
        order = Order("train", f"{task:032x}", 0, {0: -1}, message)
        start = time.perf_counter()
        letter = from_records(to_records(pack_order(order)))
        answer = unpack_answer(from_records(to_records(pack_answer(node.answer(unpack_order(letter))))))
        assert gate.wrong(unpack_reply(to_state(answer.states[0])), message) == ""
        whole.append(time.perf_counter() - start)
    alone = 1000 * statistics.median(training[1:])
    return {"training": alone, "beside_training": 1000 * statistics.median(whole[1:]) - alone}


def race(rounds: Sequence[int], times: int, out: Path) -> dict[str, Any]:
    """Both in turn, with few and with more rounds: the difference is what a round costs."""
    found: dict[str, dict[int, list[Job]]] = {"fedskew": {}, "Flower's FedAvg": {}}
    with Deployment(out / "deployment", NODES) as deployment:
        deployment.start()
        number = 0
        for _ in range(times):
            for count in rounds:
                for name, run in (("fedskew", ours), ("Flower's FedAvg", stock)):
                    found[name].setdefault(count, []).append(run(deployment, out, count, number))
                    number += 1
    return {
        name: {count: [job._asdict() for job in jobs] for count, jobs in by.items()}
        for name, by in found.items()
    }


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, nargs=2, default=(1, 4))
    parser.add_argument("--times", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        alone = in_process(Path(folder) / "alone", tasks=20)
        jobs = race(given.rounds, given.times, Path(folder))
    content = {"nodes": NODES, "milliseconds_of_a_task": alone, "jobs": jobs}
    RESULT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    show(json.loads(RESULT.read_text(encoding="utf-8")))


def show(content: dict[str, Any]) -> None:
    """Puts the figures of a result into the page."""
    first, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    last = rest.split(END)[1]
    PAGE.write_text(f"{first}{BEGIN}\n{table(content)}{END}{last}", encoding="utf-8")


def table(content: dict[str, Any]) -> str:
    """The figures in words and as a table."""
    few, many = sorted(map(int, next(iter(content["jobs"].values()))))
    task, lines = content["milliseconds_of_a_task"], []
    measured = len(content["jobs"]["fedskew"][str(few)])
    times = "once" if measured == 1 else f"{measured} times (medians)"
    for name, by in content["jobs"].items():
        short, long = (statistics.median(job["seconds"] for job in by[str(n)]) for n in (few, many))
        a_round = (long - short) / (many - few)
        accuracy = 100 * statistics.median(job["accuracy"] for job in by[str(many)])
        lines.append(f"| {name} | {short:.0f} s | {long:.0f} s | {a_round:.1f} s | {accuracy:.1f} % |")
    head = f"| | {few} round{'s' * (few > 1)} | {many} rounds | each further round | accuracy after {many} |"
    return (
        f"Digits over {content['nodes']} clients, one per SuperNode, one task each in a round; both in turn on one\n"
        f"deployment, {times} each, from `flwr run` to the last model (`benchmarks/flower.py`, two cores):\n\n"
        + "\n".join([head, "|---|---|---|---|---|", *lines])
        + f"\n\nOf a client's task, training itself takes {task['training']:.0f} ms. Packing, the client's memory on "
        f"disk and the gate\nadd {task['beside_training']:.0f} ms. The rest is Flower's: it starts a process for "
        "every task and asks for new ones\nevery three seconds.\n"
    )


if __name__ == "__main__":
    main()
