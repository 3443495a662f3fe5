"""Aggregates: how the replies of a round become one tree."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedskew import tree
from fedskew.part import Aggregate
from fedskew.tree import Tree
from fedskew.values import Cohort, Reply


@dataclass(frozen=True)
class Mean(Aggregate):
    """The mean over participants, weighted by their examples or uniform."""

    weight: Literal["samples", "uniform"] = "samples"

    def combine(self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree) -> tuple[Tree, Tree]:
        weights = by_samples(replies) if self.weight == "samples" else torch.ones_like(replies.samples)
        return tree.mean(replies.shared, weights / weights.sum()), state


@dataclass(frozen=True)
class GroupedMean(Aggregate):
    """Each component is the mean over the participants that trained it (FedOVA Eq. 5).

    A component nobody returned stays bit for bit what it was.
    """

    weight: Literal["samples", "uniform"] = "uniform"

    def combine(self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree) -> tuple[Tree, Tree]:
        sent = replies.extra["OwnRows"]
        classes, rows = sent["classes"], sent["rows"]  # [m, L]
        count = len(next(iter(shared.values())))
        belongs = (classes[..., None] == torch.arange(count)) & rows[..., None]  # [m, L, C]
        weights = belongs.to(replies.samples.dtype)
        if self.weight == "samples":
            weights = weights * by_samples(replies)[:, None, None]
        total = weights.sum((0, 1))  # [C]
        weights = weights / torch.where(total > 0, total, torch.ones_like(total))
        return tree.apply(lambda old, new: _grouped(old, new, weights, total > 0), shared, replies.shared), state


def _grouped(old: Tensor, new: Tensor, weights: Tensor, returned: Tensor) -> Tensor:
    returned = returned.reshape(-1, *([1] * (old.ndim - 1)))
    if not old.is_floating_point():
        mask = (weights > 0).reshape(*weights.shape, *([1] * (old.ndim - 1)))
        best = torch.where(mask, new[:, :, None], torch.zeros_like(new[:, :, None])).amax((0, 1))
        return torch.where(returned, best, old)
    mean = torch.einsum("mlc,ml...->c...", weights.to(new.dtype), new)
    return torch.where(returned, mean, old)


@dataclass(frozen=True)
class AdaptivePower(Aggregate):
    """Weights proportional to the clients' losses to a power q that follows their spread (GRP-FED Eq. 2-3)."""

    q: float = 10.0
    rate: float = 0.5
    reveals: ClassVar[str] = "the mean training loss"

    def server_state(self, shared: Tree, population: int) -> Tree:
        return {"q": torch.tensor(self.q, dtype=torch.float64), "spread": torch.tensor(-1.0, dtype=torch.float64)}

    def combine(self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree) -> tuple[Tree, Tree]:
        losses = replies.loss.double()
        spread, before = losses.std(correction=0), state["spread"]
        both = spread + before
        known = (before >= 0) & (both > 0)
        change = self.rate * (spread - before) / (torch.where(known, both, torch.ones_like(both)) / 2)
        q = (state["q"] + torch.where(known, change, torch.zeros_like(change))).clamp(min=0)
        return tree.mean(replies.shared, power_weights(losses, q)), {"q": q, "spread": spread}


def power_weights(losses: Tensor, q: Tensor | float) -> Tensor:
    """L^q / sum L^q in the log domain; a loss of zero has no weight, all zero or q = 0 is uniform."""
    some = losses > 0
    exponent = torch.where(some, q * torch.where(some, losses, torch.ones_like(losses)).log(), -torch.inf)
    flat = torch.zeros_like(losses)
    return torch.softmax(torch.where((some.any() & (torch.as_tensor(q) > 0)), exponent, flat), 0)


def by_samples(replies: Reply) -> Tensor:
    """Each participant's number of examples."""
    return replies.samples
