"""Seconds of a federated round: training and aggregation, without evaluation."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fedskew.bench.workloads import Workload
from fedskew.engines.choose import Choice, engine, resolve
from fedskew.engines.engine import Engine
from fedskew.engines.feed import Feed
from fedskew.engines.pool import Pool
from fedskew.fit import fit


class Timing(NamedTuple):
    """What a workload took."""

    data: str
    choice: Choice  # with every `auto` resolved
    workers: int  # processes at work
    seconds: float  # of a round of the nominal size, the median
    fastest: float
    gflops: float  # a second, counted densely
    megabytes: float  # largest resident memory of all processes together
    loss: float  # of the last round


class Lap(NamedTuple):
    """One round."""

    seconds: float
    passes: float
    loss: float


def measure(workload: Workload, choice: Choice, rounds: int = 3, method: str = "fedavg") -> Timing:
    """Times rounds after one that warms up; each is scaled to the workload's nominal number of passes."""
    plan = workload.experiment(method, choice)
    data = plan.dataset()
    federation = plan.federation(data, 0)
    feed = Feed.of(plan.algorithm(federation, 0), federation, plan.training)
    chosen = resolve(choice, feed.algorithm, feed)
    machine = engine(chosen, feed.algorithm, feed)
    try:
        taken = list(_laps(feed, machine, workload.participation, rounds + 1))[1:]
        workers = machine.pids() if isinstance(machine, Pool) else []
        memory = megabytes(workers)
    finally:
        machine.close()
    scaled = [lap.seconds * workload.passes / lap.passes for lap in taken]
    seconds = statistics.median(scaled)
    gflops = workload.passes * workload.flops / seconds / 1e9
    return Timing(
        data.name, chosen, max(1, len(workers)), seconds, min(scaled), gflops, memory, taken[-1].loss
    )


def _laps(feed: Feed, machine: Engine, participation: float, rounds: int) -> Iterator[Lap]:
    start = time.perf_counter()
    for round in fit(feed.algorithm, machine, feed.federation, rounds, participation):
        seconds = time.perf_counter() - start
        assert round.replies is not None
        passes = sum(_passes(feed, client) for client in round.cohort.ids)
        yield Lap(seconds, passes, float(round.replies.loss.mean()))
        start = time.perf_counter()


def _passes(feed: Feed, client: int) -> int:
    samples = len(feed.federation.partition.train[client])
    return samples * feed.training.epochs_for(-(-samples // feed.training.batch))


def megabytes(workers: Sequence[int]) -> float:
    """Peak of this process, and what its workers hold beyond what they share with it."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return own + sum(_private(pid) for pid in workers)


def _private(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024
