"""Aggregates of one-vs-all networks, component by component, and components for classes that appear later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from fedskew import tree
from fedskew.errors import ConfigError
from fedskew.part import Aggregate
from fedskew.parts.aggregates import precise
from fedskew.ranges import SomeFraction
from fedskew.tree import Tree
from fedskew.values import Cohort, Model, Reply

if TYPE_CHECKING:
    from fedskew.method import Method


@dataclass(frozen=True)
class GroupedMean(Aggregate):
    """Each component is the mean over the participants that trained it (FedOVA, Zhu et al., 2021, Eq. 5).

    A component nobody returned stays bit for bit what it was.
    """

    weight: Literal["samples", "uniform"] = "uniform"

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        sent = replies.extra["OwnRows"]
        weight = replies.samples if self.weight == "samples" else torch.ones_like(replies.samples)
        new = grouped_mean(shared, replies.shared, sent["classes"], sent["rows"], weight)
        return new, progress(shared, sent, state)

    @property
    def weighs(self) -> bool:
        return self.weight == "samples"

    def check(self, method: Method) -> None:
        _by_component(self, method)


def grouped_mean(shared: Tree, stacked: Tree, classes: Tensor, rows: Tensor, weight: Tensor) -> Tree:
    """Components [C, ...] from rows [m, L, ...]: each is for class `classes[k, l]`, where `rows[k, l]`."""
    weights = precise(weight, stacked)[:, None] * rows  # [m, L]
    count = len(next(iter(shared.values())))
    total = weights.new_zeros(count).index_add(0, classes.flatten(), weights.flatten())
    part = weights / torch.where(total > 0, total, 1)[classes]
    return tree.apply(lambda old, new: _grouped(old, new, classes, part, total > 0), shared, stacked)


def _grouped(old: Tensor, new: Tensor, classes: Tensor, part: Tensor, returned: Tensor) -> Tensor:
    fresh = torch.where(returned.reshape(-1, *[1] * (old.ndim - 1)), 0, old)
    for k, row in part.nonzero().tolist():
        mean, mine = fresh[classes[k, row]], new[k, row]
        if old.is_floating_point():
            mean.add_(mine, alpha=float(part[k, row]))
        else:
            torch.maximum(mean, mine, out=mean)
    return fresh


@dataclass(frozen=True)
class AsArrived(Aggregate):
    """Each component is mixed in as it arrives, those of clients with fewer steps first (FedOVA, §III-B).

    The paper gives no rule: with `rate` a new component counts that much; without, as much as each before it,
    which ends where the grouped mean does.
    """

    rate: SomeFraction | None = 0.5

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        sent = replies.extra["OwnRows"]
        count = len(next(iter(shared.values())))
        seen, before = torch.zeros(count, dtype=precise(replies.samples, shared).dtype), shared
        for k in sorted(range(len(cohort.ids)), key=lambda k: (float(replies.steps[k]), cohort.ids[k])):
            mine = sent["classes"][k][sent["rows"][k]]
            seen = seen.index_add(0, mine, torch.ones_like(seen[mine]))
            rates = 1 / seen[mine] if self.rate is None else torch.full_like(seen[mine], self.rate)
            rows = {n: value[k][sent["rows"][k]] for n, value in replies.shared.items()}
            shared = arrive(shared, rows, mine, rates)
        return shared, progress(before, sent, state)

    def check(self, method: Method) -> None:
        _by_component(self, method)


def progress(shared: Tree, sent: Tree, state: Tree) -> Tree:
    """Which components anybody has trained so far, and how many nobody has."""
    untouched = torch.zeros(len(next(iter(shared.values()))), dtype=torch.bool)
    trained = state.get("trained", untouched).index_fill(0, sent["classes"][sent["rows"].bool()], True)
    return {"trained": trained, "untrained": (~trained).sum()}


def arrive(shared: Tree, rows: Tree, classes: Tensor, rates: Tensor) -> Tree:
    """The components after one client's: those of `classes` move by `rates`, the others stay bit for bit."""

    def mixed(all: Tensor, new: Tensor) -> Tensor:
        rate = rates.reshape(-1, *([1] * (new.ndim - 1))).to(new.dtype)
        old = all[classes]
        fresh = (1 - rate) * old + rate * new if new.is_floating_point() else torch.maximum(old, new)
        return all.index_copy(0, classes, fresh)

    return tree.apply(mixed, shared, rows)


def grow(shared: Tree, initial: Tree) -> Tree:
    """The components with those of further classes behind them, as a network of more classes starts them."""
    return tree.apply(lambda old, fresh: torch.cat([old, fresh[len(old) :].to(old.dtype)]), shared, initial)


def _by_component(part: Aggregate, method: Method) -> None:
    if method.share.name != "OwnRows":
        raise ConfigError(
            f"{part.name} averages the components that clients trained, and {method.share.name} sends "
            "the network as one piece: use the share OwnRows with the network OneVsAll (FedOVA)."
        )
