"""Row 6: any number of workers, answers in any order: one hash for each preset, seed, engine and backend."""

from __future__ import annotations

import hashlib
import random
import time
from dataclasses import replace

import pytest
import torch
from counting import Tally
from references import world
from references.runs import PRESETS, SOLVER, advance, algorithm

from fedskew.algorithm import Algorithm
from fedskew.engines.engine import Engine
from fedskew.engines.pool import Pool
from fedskew.engines.serial import Serial
from fedskew.kernels import Backend, prepare
from fedskew.store import codec
from fedskew.tree import State
from fedskew.values import Client, Reply

WORKERS = (1, 2, 4, 8)
SEEDS = (world.SEED, world.SEED + 1)
ROUNDS = 2


class Restless(Algorithm):
    """An algorithm whose clients take a time that nothing foretells, and which refuses a second thread."""

    def local(self, message: State, kept: State, data: Client, *more: object) -> tuple[Reply, State]:
        assert torch.get_num_threads() == 1
        time.sleep(random.SystemRandom().uniform(0, 0.004))
        return Algorithm.local(self, message, kept, data, *more)


def restless(method: str, seed: int) -> Restless:
    calm = replace(algorithm(PRESETS[method], dtype=torch.float32, solver=SOLVER), seed=seed)
    return Restless(**{name: getattr(calm, name) for name in Algorithm.__dataclass_fields__})


def fingerprint(bound: Algorithm, engine: Engine) -> str:
    server, _ = advance(bound, engine, bound.init(), range(ROUNDS))
    kept = [codec.encode(engine.kept[client]) for client in sorted(engine.kept)]
    engine.close()
    return hashlib.sha256(b"".join([codec.encode(server), *kept])).hexdigest()


def one_hash(method: str, seed: int, backend: Backend) -> None:
    bound, sides = restless(method, seed), (world.federation(), world.TRAINING)
    engines = [Pool(bound, *sides, workers, backend) for workers in WORKERS]
    found = {fingerprint(bound, engine) for engine in [*engines, Serial(bound, *sides, backend=backend)]}
    assert len(found) == 1, (method, seed, backend)


def test_the_order_of_arrival_does_not_matter(tally: Tally) -> None:
    for method in PRESETS:
        for seed in SEEDS:
            with tally.case():
                one_hash(method, seed, "autograd")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_nor_with_any_backend(backend: Backend, tally: Tally) -> None:
    if not prepare(backend):
        pytest.skip(f"the backend {backend} cannot be built here")
    for method in PRESETS:
        for seed in SEEDS:
            with tally.case():
                one_hash(method, seed, backend)
