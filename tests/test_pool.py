"""The pool gives the serial engine's bits, for any number of workers, and survives a killed worker."""

import os
import signal

import pytest
import torch

from fedskew import Experiment, Labels, Training
from fedskew.engines.choose import Choice
from fedskew.engines.pool import Pool
from fedskew.tree import State

METHODS = ("fedavg", "scaffold", "map", "grpfed", "fedova")


def experiment(method: str, name: str, workers: int = 0) -> Experiment:
    return Experiment(
        split=Labels(clients=10, per_client=2),
        method=method,
        rounds=3,
        training=Training(epochs=1, batch=32),
        model_options={"hidden": (8,)},
        engine=Choice(name=name, workers=workers),
    )


def flat(state: State) -> list[tuple[str, str, bytes]]:
    return [
        (part, name, value.contiguous().numpy().tobytes())
        for part, entries in sorted(state.items())
        for name, value in sorted(entries.items())
    ]


def outcome(method: str, name: str, workers: int = 0) -> tuple[object, ...]:
    with experiment(method, name, workers).session(0) as session:
        steps = list(session.rounds())
        kept = [flat(session.engine.kept[client]) for client in sorted(session.engine.kept)]
    return flat(steps[-1].round.server), kept, [repr(step.record) for step in steps]


@pytest.mark.parametrize("method", METHODS)
def test_any_number_of_workers_gives_the_same_bits(method: str) -> None:
    torch.set_num_threads(1)
    expected = outcome(method, "serial")
    for workers in (1, 2, 4):
        assert outcome(method, "pool", workers) == expected, workers


def test_a_killed_worker_is_replaced_and_nothing_changes() -> None:
    torch.set_num_threads(1)
    with experiment("scaffold", "pool", 2).session(0) as session:
        assert isinstance(session.engine, Pool)
        seen = []
        for step in session.rounds():
            seen.append(flat(step.round.server))
            os.kill(session.engine.pids()[0], signal.SIGKILL)
    assert seen[-1] == outcome("scaffold", "serial")[0]
