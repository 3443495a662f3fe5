"""The generator of rounds: progress, checkpoints and evaluation are ordinary code around it."""

from collections.abc import Iterator
from typing import NamedTuple

from fedskew.algorithm import Algorithm
from fedskew.data.federation import Federation
from fedskew.engines.engine import Engine
from fedskew.errors import DivergedError
from fedskew.tree import State
from fedskew.values import Cohort, Reply


class Round(NamedTuple):
    """What happened in one round."""

    number: int  # counts from 0
    before: State  # the server the participants downloaded
    server: State
    replies: Reply | None
    cohort: Cohort


def fit(
    algorithm: Algorithm,
    engine: Engine,
    federation: Federation,
    rounds: int,
    participation: float,
    start: int = 0,
    server: State | None = None,
) -> Iterator[Round]:
    """Round after round from `start`; a round nobody survived keeps the model."""
    server = algorithm.init() if server is None else server
    for number in range(start, rounds):
        ids = federation.participants(algorithm.seed, number, participation)
        replies, cohort = engine.exchange(algorithm.message(server, number), ids, number)
        before = server
        if replies is not None:
            _refuse_divergence(replies, cohort)
            server = algorithm.step(server, replies, cohort)
        yield Round(number, before, server, replies, cohort)


def _refuse_divergence(replies: Reply, cohort: Cohort) -> None:
    lost = [
        k for k, loss in zip(cohort.ids, replies.loss.tolist(), strict=True) if not abs(loss) < float("inf")
    ]
    if lost:
        raise DivergedError(
            f"training diverged in round {cohort.round}: the loss of client {lost[0]} is not finite "
            f"({len(lost)} of {len(cohort.ids)} participants). Lower train.lr, or set train.clip."
        )
