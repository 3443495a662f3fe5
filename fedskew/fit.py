"""The generator of rounds: progress, checkpoints and evaluation are ordinary code around it."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from fedskew.algorithm import Algorithm
from fedskew.data.federation import Federation
from fedskew.engines.engine import Engine
from fedskew.engines.quarters import one_thread
from fedskew.errors import DivergedError
from fedskew.gate import HOPELESS
from fedskew.tree import State
from fedskew.values import Cohort, Reply

HINT = "Lower train.lr, or set train.clip; the last good model is kept."


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
            with one_thread():
                server = algorithm.step(server, replies, cohort)
            _refuse_lost_model(server, number)
        yield Round(number, before, server, replies, cohort)


def _refuse_divergence(replies: Reply, cohort: Cohort) -> None:
    losses = zip(cohort.ids, replies.loss.tolist(), strict=True)
    lost = [(client, loss) for client, loss in losses if not abs(loss) < HOPELESS]
    if lost:
        what = f"is {lost[0][1]:.3g}" if math.isfinite(lost[0][1]) else "is not finite"
        raise DivergedError(
            f"training diverged in round {cohort.round}: the loss of client {lost[0][0]} {what} "
            f"({len(lost)} of {len(cohort.ids)} participants). {HINT}"
        )


def _refuse_lost_model(server: State, round: int) -> None:
    """A last step can overflow after every loss was finite; such a model must never be committed."""
    for part, entries in server.items():
        for name, value in entries.items():
            if not bool(value.isfinite().all()):
                where = name if part == "shared" else f"{part}/{name}"
                raise DivergedError(
                    f"training diverged in round {round}: the server's {where} is not finite. {HINT}"
                )
