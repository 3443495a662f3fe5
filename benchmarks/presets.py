"""What every preset costs for a gradient it needs, in units of FedAvg's: a table for docs/performance.md.

    python benchmarks/presets.py --out results/presets.json

A gradient is one pass forward and backward of one batch; FedOVA's are counted for every component it trains.
Passes without a gradient (a teacher, an anchor, a score) are counted beside them, and what one takes is timed in
the same run: the last figure takes them for work that the method asks for.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fedskew import methods, models
from fedskew.algorithm import Algorithm
from fedskew.bench.workloads import random_images
from fedskew.data.federation import Federation, Training
from fedskew.data.partition import Partition
from fedskew.engines.feed import Feed
from fedskew.engines.quarters import keep_memory, quarters
from fedskew.kernels import Backend
from fedskew.local import Loss, autograd
from fedskew.method import Method
from fedskew.phase import Value
from fedskew.step import SGD
from fedskew.tree import Tree
from fedskew.values import Out

HERE = Path(__file__).parent
PRESETS = {name: value for name, value in vars(methods).items() if isinstance(value, Method)}
NETWORKS = {"fedabc-mlp": (64, SGD(0.01, 0.9, 1e-5)), "bench-cnn": (15, SGD(0.01))}
BATCHES, LABELS = 20, 2
_GLANCE = "a pass without a gradient"


@dataclass
class Counter:
    """How many passes a client's round took."""

    gradients: int = 0
    forwards: int = 0

    def differentiate(self, loss: Loss, params: Tree) -> tuple[Tree, Value]:
        self.gradients += 1
        self.forwards -= 1  # its own pass is part of it
        return autograd(loss, params)


def feed(method: Method, network: str) -> Feed:
    """One client with two labels and twenty batches."""
    batch, solver = NETWORKS[network]
    data = random_images(BATCHES * batch, (1, 28, 28), "noise")
    data = data._replace(y=data.y % LABELS)
    nothing = np.array([], dtype=np.int64)
    federation = Federation(data, Partition((data.train,), (nothing,)))
    model = method.network.build(models.model(network, None, (1, 28, 28)), 10)
    return Feed.of(Algorithm(method, model, solver, 1), federation, Training(1, batch))


def counted(world: Feed) -> Counter:
    """The passes of one round."""
    counter, bound = Counter(), world.algorithm

    def forward(params: Tree, x: torch.Tensor, train: bool) -> Out:
        counter.forwards += 1
        return bound.model.forward(params, x, train)

    spied = replace(bound, model=bound.model._replace(forward=forward))
    spied.local(bound.message(bound.init(), 0), bound.fresh(0), world.client(0, 0), counter.differentiate)
    return counter


def trial(world: Feed) -> Callable[[], float]:
    """Times one round of the client, all that leads from a message to a reply."""
    bound, data = world.algorithm, world.client(0, 0)
    message, kept = bound.message(bound.init(), 0), bound.fresh(0)
    _, kept = bound.local(message, kept, data)

    def run() -> float:
        start = time.process_time()
        bound.local(message, kept, data)
        return time.process_time() - start

    return run


def glance(world: Feed) -> Callable[[], float]:
    """Times the forward passes of one round, without a gradient."""
    bound, data = world.algorithm, world.client(0, 0)
    batches = [data.batch(data.plans[0], position).x for position in range(BATCHES)]

    @torch.no_grad()
    def run() -> float:
        start = time.process_time()
        for x in batches:
            bound.model.forward(bound.initial, x, True)
        return time.process_time() - start

    return run


def table(network: str, backend: Backend, repeats: int) -> list[dict[str, object]]:
    """A row for every preset; trials take turns, and the best of each counts."""
    worlds = {name: feed(method, network) for name, method in PRESETS.items()}
    with quarters(backend):
        counts = {name: counted(world) for name, world in worlds.items()}
        trials = {name: trial(world) for name, world in worlds.items()} | {_GLANCE: glance(worlds["fedavg"])}
        best = dict.fromkeys(trials, float("inf"))
        for _ in range(repeats):
            for name, run in trials.items():
                best[name] = min(best[name], run())
    unit = best["fedavg"] / counts["fedavg"].gradients
    share = best.pop(_GLANCE) / best["fedavg"]
    return [row(name, network, best[name] / unit, counts[name], share) for name in sorted(best)]


def row(name: str, network: str, units: float, counter: Counter, share: float) -> dict[str, object]:
    """The figures of one preset, flat."""
    parts = LABELS if PRESETS[name].share.name == "OwnRows" else 1
    gradients, others = counter.gradients * parts, counter.forwards * parts
    return {
        "method": name,
        "network": network,
        "gradients": gradients / BATCHES,
        "other passes": others / BATCHES,
        "times FedAvg's round": round(units / BATCHES, 2),
        "times FedAvg's gradient": round(units / gradients, 2) if gradients else None,
        "times FedAvg's passes": round(units / (gradients + share * others), 2) if gradients else None,
    }


def main() -> None:
    """Both networks, written as one list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", choices=["autograd", "torch", "native"], default="native")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "presets.json")
    told = parser.parse_args()
    keep_memory()
    rows = [row for network in NETWORKS for row in table(network, told.backend, told.repeats)]
    told.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for found in rows:
        print(*found.values(), sep="\t")


if __name__ == "__main__":
    main()
