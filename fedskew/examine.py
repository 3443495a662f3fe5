"""How one client's models do: confusion matrices on its own test set and on everybody's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew import metrics
from fedskew.algorithm import Algorithm
from fedskew.engines.feed import Feed
from fedskew.tree import State


class Exam(NamedTuple):
    """What is asked of every client."""

    names: tuple[str, ...]  # which of its models
    whole: bool = True  # also on the global test set
    ballot: bool = False  # also what its first model adds to an ensemble


class Marks(NamedTuple):
    """One client's confusion matrices [models, C, C]; `seen` is False for one that never took part."""

    home: Tensor
    whole: Tensor | None
    ballot: Tensor | None  # [N, C]
    seen: bool


def examine(
    algorithm: Algorithm, feed: Feed, server: State, kept: State | None, client: int, exam: Exam
) -> Marks:
    """Evaluates the named models of one client."""
    data = feed.idle(client)
    home = torch.from_numpy(feed.federation.partition.test[client])
    test = torch.from_numpy(feed.federation.data.test)
    models = [algorithm.personal(server, kept, data, name) for name in exam.names]
    everywhere = (
        [algorithm.predict(model, feed.x[test]) for model in models] if exam.whole or exam.ballot else []
    )
    return Marks(
        torch.stack([_confusion(feed, algorithm.predict(model, feed.x[home]), home) for model in models]),
        torch.stack([_confusion(feed, logits, test) for logits in everywhere]) if exam.whole else None,
        metrics.ballot(everywhere[0]) if exam.ballot else None,
        kept is not None,
    )


def everybody(algorithm: Algorithm, feed: Feed, server: State, positions: Sequence[Tensor]) -> list[Tensor]:
    """Confusion matrices of the server's network on many sets of examples, each example run once."""
    needed = torch.unique(torch.cat([torch.zeros(0, dtype=torch.int64), *positions]))
    if not len(needed):
        return [
            torch.zeros(feed.federation.classes, feed.federation.classes, dtype=torch.int64)
            for _ in positions
        ]
    logits = algorithm.predict(algorithm.overall(server), feed.x[needed])
    return [_confusion(feed, logits[torch.searchsorted(needed, chosen)], chosen) for chosen in positions]


def _confusion(feed: Feed, logits: Tensor, positions: Tensor) -> Tensor:
    return metrics.confusion(
        metrics.predict(logits), feed.federation.data.y[positions], feed.federation.classes
    )
