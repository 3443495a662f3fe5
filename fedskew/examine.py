"""How the models of clients, and the server's, do: confusion matrices on a client's own test set and on everybody's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew import metrics
from fedskew.engines.feed import Feed
from fedskew.tree import State, Tree

Ask = Callable[[State, Tensor], Tensor]  # as `answer`, by whoever has the feed


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
    told: Tensor  # numbers of its state, as `Algorithm.told` names them
    seen: bool


def examine(feed: Feed, server: State, states: Iterable[tuple[int, State | None]], exam: Exam) -> list[Marks]:
    """Evaluates the named models of some clients, given what each has kept."""
    sitting = _Sitting(feed, server, exam)
    return [sitting.marks(client, kept) for client, kept in states]


@dataclass
class _Sitting:
    """One evaluation; what the server's network answers to everybody's test set is found out once."""

    feed: Feed
    server: State
    exam: Exam

    def marks(self, client: int, kept: State | None) -> Marks:
        """How one client's models do."""
        feed, algorithm, exam = self.feed, self.feed.algorithm, self.exam
        data, home = feed.idle(client), torch.from_numpy(feed.federation.partition.test[client])
        models = [algorithm.personal(self.server, kept, data, name) for name in exam.names]
        at_home = [algorithm.predict(model, feed.x[home]) for model in models]
        everywhere = [self._everywhere(model) for model in models] if exam.whole or exam.ballot else []
        return Marks(
            self._scored(at_home, home),
            self._scored(everywhere, self._test) if exam.whole else None,
            metrics.ballot(everywhere[0]) if exam.ballot else None,
            algorithm.tell(kept, data),
            kept is not None,
        )

    def _scored(self, logits: list[Tensor], positions: Tensor) -> Tensor:
        return torch.stack(confusions(self.feed, logits, [positions] * len(logits)))

    def _everywhere(self, model: Tree) -> Tensor:
        common = self.feed.algorithm.overall(self.server)
        if all(value is common[name] for name, value in model.items()):
            return self._common
        return self.feed.algorithm.predict(model, self.feed.x[self._test])

    @cached_property
    def _common(self) -> Tensor:
        return answer(self.feed, self.server, self._test)

    @property
    def _test(self) -> Tensor:
        return torch.from_numpy(self.feed.federation.data.test)


def answer(feed: Feed, server: State, examples: Tensor) -> Tensor:
    """Logits of the server's network for examples of the pool, by their positions."""
    return feed.algorithm.predict(feed.algorithm.overall(server), feed.x[examples])


def answers(ask: Ask, feed: Feed, server: State, positions: Sequence[Tensor]) -> list[Tensor]:
    """Logits of the server's network for many sets of examples, each example asked for once."""
    needed = torch.unique(torch.cat([torch.zeros(0, dtype=torch.int64), *positions]))
    if not len(needed):
        return [torch.zeros(0, feed.federation.classes) for _ in positions]
    logits = ask(server, needed)
    return [logits[torch.searchsorted(needed, chosen)] for chosen in positions]


def confusions(feed: Feed, logits: Sequence[Tensor], positions: Sequence[Tensor]) -> list[Tensor]:
    """What is taken for what, among these sets of examples of the pool."""
    y, classes = feed.federation.data.y, feed.federation.classes
    return [
        metrics.confusion(metrics.predict(said), y[chosen], classes)
        for said, chosen in zip(logits, positions, strict=True)
    ]
