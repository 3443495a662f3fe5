"""What flushing tiny numbers to zero saves, client by client: results/subnormals.json.

    python benchmarks/subnormals.py

A client that tells its few classes apart without error has gradients too small for the normal numbers of single
precision. Its round is timed as processors are set up by default and with such numbers flushed, and the bits compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from fedskew.bench.workloads import WORKLOADS, Workload
from fedskew.engines.choose import Choice
from fedskew.engines.quarters import flushed, one_thread
from fedskew.kernels import using
from fedskew.step import SGD
from fedskew.values import Reply

CLIENTS = 10
PAPER = replace(WORKLOADS["W2"], model="fedova-cnn", solver=SGD(lr=0.01, momentum=0.9))
CASES: dict[str, tuple[Workload, str]] = {
    "W1": (WORKLOADS["W1"], "fedavg"),
    "W2": (WORKLOADS["W2"], "fedavg"),
    "W2 with FedOVA's network and momentum": (PAPER, "fedavg"),
    "the same, FedOVA": (PAPER, "fedova"),
}


def case(name: str) -> dict[str, object]:
    """Milliseconds of a step in the first round, for the first clients."""
    workload, method = CASES[name]
    plan = workload.experiment(method, Choice("serial", backend="native"))
    usual, spared, same = [], [], True
    with plan.session(0) as session, one_thread(), using("native"):
        feed, algorithm = session.feed, session.feed.algorithm
        message = algorithm.message(algorithm.init(), 0)

        def local(client: int) -> Reply:
            return algorithm.local(message, algorithm.fresh(client), feed.client(0, client))[0]

        local(0)
        for client in range(CLIENTS):
            one, plain = _timed(lambda client=client: local(client), nullcontext())
            two, short = _timed(lambda client=client: local(client), flushed())
            usual.append(one / feed.steps(client))
            spared.append(two / feed.steps(client))
            same &= all(torch.equal(value, short.shared[entry]) for entry, value in plain.shared.items())
    ratios = [one / two for one, two in zip(usual, spared, strict=True)]
    return {
        "round of ten clients": name,
        "ms a step, as is": round(statistics.mean(usual), 3),
        "ms a step, flushed": round(statistics.mean(spared), 3),
        "times": round(sum(usual) / sum(spared), 3),
        "times, median client": round(statistics.median(ratios), 3),
        "times, worst client": round(max(ratios), 3),
        "same bits": "yes" if same else "no",
    }


def _timed(work: Callable[[], Reply], setting: AbstractContextManager[None]) -> tuple[float, Reply]:
    with setting:
        begin = time.process_time()
        found = work()
        return (time.process_time() - begin) * 1000, found


def main() -> None:
    """All cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent.parent / "results" / "subnormals.json"
    )
    told = parser.parse_args()
    rows = []
    for name in CASES:
        rows.append(case(name))
        print(rows[-1], flush=True)
    told.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
