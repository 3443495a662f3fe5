"""Robust aggregates: rules that a few replies cannot move far. None makes a federation immune.

All but `ClippedMean` count every client once: a weight by examples is a number the client itself reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedskew import tree
from fedskew.part import Aggregate, Section
from fedskew.parts.aggregates import moved, shares
from fedskew.ranges import Minority, Positive
from fedskew.tree import Tree
from fedskew.values import Cohort, Model, Reply


@dataclass(frozen=True)
class Median(Aggregate):
    """The median of every number over participants (Yin et al., 2018); of an even count the middle of two."""

    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        return entrywise(replies.shared, median), state


@dataclass(frozen=True)
class TrimmedMean(Aggregate):
    """The mean of every number without its largest and smallest `share` of values (Yin et al., 2018)."""

    share: Minority = 0.2
    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        return entrywise(replies.shared, lambda values: trimmed_mean(values, self.share)), state


@dataclass(frozen=True)
class MultiKrum(Aggregate):
    """The mean of the replies that lie closest to their neighbours (multi-Krum, Blanchard et al., 2017).

    `share` of the participants are taken to be bad, f of K; a reply's score is the sum of squared distances
    to its K - f - 2 nearest, and the K - f lowest scores are averaged.
    """

    share: Minority = 0.2
    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        chosen = krum(_flat(replies.shared, model.buffers), self.share)
        return tree.mean(replies.shared, chosen.double() / chosen.sum()), state


@dataclass(frozen=True)
class ClippedMean(Aggregate):
    """The weighted mean of changes no longer than `radius` (norm clipping, Sun et al., 2019), without noise.

    Statistics of batch-norm are plainly averaged.
    """

    radius: Positive = 1.0
    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        plain = shares(replies.samples)
        changes = {name: value - shared[name] for name, value in replies.shared.items()}
        lengths = _flat(changes, model.buffers).square().sum(1).sqrt()
        weights = plain * (self.radius / lengths.clamp(min=self.radius))
        return moved(shared, replies.shared, weights, plain, model.buffers), state

    @property
    def weighs(self) -> bool:
        return True


def entrywise(stacked: Tree, rule: Callable[[Tensor], Tensor]) -> Tree:
    """A rule over the leading axis of every entry; an integer entry takes its maximum."""
    return tree.apply(lambda value: rule(value) if value.is_floating_point() else value.amax(0), stacked)


def median(values: Tensor) -> Tensor:
    """The median over the leading axis."""
    ordered = values.sort(0).values
    last = len(values) - 1
    return (ordered[last // 2] + ordered[(last + 1) // 2]) / 2


def trimmed_mean(values: Tensor, share: float) -> Tensor:
    """The mean over the leading axis without `share` of the values at each end."""
    cut = _count(share, len(values))
    return values.sort(0).values[cut : len(values) - cut].mean(0)


def krum(points: Tensor, share: float) -> Tensor:
    """Which of the points [K, D] multi-Krum keeps, as booleans [K]; of equal scores the first ones."""
    count = len(points)
    bad = _count(share, count)
    distances = torch.stack([(points - point).square().sum(1) for point in points])
    nearest = distances.sort(1).values[:, 1 : 1 + max(1, count - bad - 2)]  # the first is the point itself
    kept = nearest.sum(1).sort(stable=True).indices[: count - bad]
    return torch.zeros(count, dtype=torch.bool).index_fill(0, kept, True)


def _flat(stacked: Tree, buffers: frozenset[str]) -> Tensor:
    """The trained entries of all clients as vectors [K, D] in double precision."""
    return torch.cat(
        [v.reshape(len(v), -1).double() for name, v in stacked.items() if name not in buffers], 1
    )


def _count(share: float, clients: int) -> int:
    return int(share * clients + 1e-9)  # 0.3 of 10 are 3, whatever floating point says
