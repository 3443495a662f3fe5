"""Row 4: worker processes killed in the middle of a round; the run goes on, to the same bits."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from counting import Tally, part_of
from references import world
from references.runs import PRESETS, advance, algorithm

from fedskew.algorithm import Algorithm
from fedskew.engines.engine import Engine
from fedskew.engines.pool import Pool
from fedskew.engines.serial import Serial
from fedskew.store import codec
from fedskew.values import Out

METHODS = ("scaffold", "fedavg", "map", "fedova", "grpfed")
ROUNDS = 4


def slowed(bound: Algorithm, seconds: float) -> Algorithm:
    """The algorithm with a network that takes its time, so that a round has a middle."""

    def forward(params: dict[str, torch.Tensor], x: torch.Tensor, train: bool) -> Out:
        time.sleep(seconds)
        return bound.model.forward(params, x, train)

    return replace(bound, model=bound.model._replace(forward=forward))


def outcome(bound: Algorithm, engine: Engine) -> tuple[bytes, dict[int, bytes]]:
    server, _ = advance(bound, engine, bound.init(), range(ROUNDS))
    return codec.encode(server), {client: codec.encode(engine.kept[client]) for client in sorted(engine.kept)}


def undisturbed(method: str) -> tuple[bytes, dict[int, bytes]]:
    bound = algorithm(PRESETS[method], dtype=torch.float32)
    return outcome(bound, Serial(bound, world.federation(), world.TRAINING))


class Killer(threading.Thread):
    """Kills one of the workers now and then, so many times; none twice within a job's three attempts."""

    def __init__(self, pids: Callable[[], Sequence[int]], kills: int, seed: int) -> None:
        threading.Thread.__init__(self)
        self.pids, self.left, self.rng = pids, kills, random.Random(seed)
        self.done, self.killed = threading.Event(), set[int]()

    def run(self) -> None:
        while self.left and not self.done.wait(self.rng.uniform(0.02, 0.08)):
            fresh = [pid for pid in self.pids() if pid not in self.killed]
            if fresh:
                victim = self.rng.choice(fresh)
                with suppress(ProcessLookupError):  # it has just been replaced
                    os.kill(victim, signal.SIGKILL)
                    self.killed.add(victim)
                    self.left -= 1


def disturbed(bound: Algorithm, engine: Engine, killer: Killer) -> tuple[bytes, dict[int, bytes]]:
    killer.start()
    try:
        return outcome(bound, engine)
    finally:
        killer.done.set()
        killer.join()


@pytest.mark.parametrize("kills", [16, pytest.param(960, marks=pytest.mark.slow)])
def test_workers_of_the_pool(kills: int, tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedskew.engines.crew.ATTEMPTS", 10)  # one job may be struck again and again here
    expected = {method: undisturbed(method) for method in METHODS}
    while tally.tried < part_of(kills):
        method = METHODS[tally.tried % len(METHODS)]
        bound = slowed(algorithm(PRESETS[method], dtype=torch.float32), 0.002)
        engine = Pool(bound, world.federation(), world.TRAINING, 2)
        try:
            killer = Killer(engine.pids, min(2, part_of(kills) - tally.tried), tally.tried)
            assert disturbed(bound, engine, killer) == expected[method]
        finally:
            engine.close()
        tally.tried += len(killer.killed)
        tally.passed = tally.tried


@pytest.fixture
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from fedskew.engines.ray import connect

    connect(2)
    yield
    ray.shutdown()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*", "ignore::FutureWarning:ray.*")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_actors_of_ray(kills: int, cluster: None, tally: Tally) -> None:
    import ray

    from fedskew.engines.ray import Ray

    while tally.tried < part_of(kills):
        method = METHODS[tally.tried % len(METHODS)]
        bound = algorithm(PRESETS[method], dtype=torch.float32)
        engine = Ray(bound, world.federation(), world.TRAINING, workers=2, block=2)
        homes = [ray.get(home.__ray_call__.remote(lambda self: os.getpid())) for home in engine._homes]
        left = min(2, part_of(kills) - tally.tried)
        killer = Killer(lambda homes=homes: homes, left, tally.tried)
        assert disturbed(bound, engine, killer) == undisturbed(method)
        engine.close()
        tally.tried += len(killer.killed)
        tally.passed = tally.tried
