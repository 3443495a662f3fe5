"""Aggregates: how the replies of a round become one tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from fedskew import tree
from fedskew.errors import ConfigError
from fedskew.part import Aggregate, Section
from fedskew.tree import Tree
from fedskew.values import Cohort, Model, Reply

if TYPE_CHECKING:
    from fedskew.method import Method


def precise(samples: Tensor, weighed: Tree) -> Tensor:
    """Numbers of examples in a precision that is at least that of what they weigh."""
    for value in weighed.values():
        if value.is_floating_point():
            samples = samples.to(torch.promote_types(samples.dtype, value.dtype))
    return samples


def shares(weights: Tensor) -> Tensor:
    """Weights that sum to 1; equal ones where nobody has any."""
    total = weights.sum()
    return torch.where(total > 0, weights / torch.where(total > 0, total, 1), 1 / len(weights))


@dataclass(frozen=True)
class Mean(Aggregate):
    """The mean over participants, weighted by their examples or uniform (FedAvg, McMahan et al., 2017)."""

    weight: Literal["samples", "uniform"] = "samples"

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        samples = precise(replies.samples, replies.shared)
        weights = samples if self.weight == "samples" else torch.ones_like(samples)
        return tree.mean(replies.shared, shares(weights)), state

    @property
    def weighs(self) -> bool:
        return self.weight == "samples"


@dataclass(frozen=True)
class Normalised(Aggregate):
    """Each client's change counts per step it took, and all go the mean way (FedNova, Wang et al., 2020)."""

    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    reveals: ClassVar[str] = "how many steps it took"
    scalars: ClassVar[int] = 1

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        plain = shares(precise(replies.samples, replies.shared))
        weights = normalised_weights(plain, replies.effective_steps)
        return moved(shared, replies.shared, weights, plain, model.buffers), state

    @property
    def weighs(self) -> bool:
        return True


def normalised_weights(plain: Tensor, steps: Tensor) -> Tensor:
    """p_k (sum p a) / a_k: FedNova's weight of each client's change; one without a step has none."""
    some = steps > 0
    return torch.where(some, plain * (plain * steps).sum() / torch.where(some, steps, 1), 0)


def moved(shared: Tree, stacked: Tree, weights: Tensor, plain: Tensor, buffers: frozenset[str]) -> Tree:
    """x + sum w_k (y_k - x), by values so that a single w_k = 1 gives y_k exactly; statistics by `plain`."""
    weights = weights.double()  # their sum may be far from 1, and two large multiples of x then cancel

    def sum_of(x: Tensor, y: Tensor) -> Tensor:
        total: Tensor = (1 - weights.sum()) * x.double() + torch.tensordot(weights, y.double(), dims=1)
        return total.to(x.dtype)

    means = tree.mean({n: value for n, value in stacked.items() if n in buffers}, plain)
    return {n: means[n] if n in buffers else sum_of(x, stacked[n]) for n, x in shared.items()}


@dataclass(frozen=True)
class DynamicMean(Aggregate):
    """The uniform mean less the sum of all drifts so far over the population (FedDyn, Acar et al., 2021).

    The server remembers h / alpha, so that the rule itself has no alpha.
    """

    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def server_state(self, shared: Tree, population: int) -> Tree:
        return tree.zeros(shared)

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        count = len(cohort.ids)
        samples = precise(replies.samples, replies.shared)
        mean = tree.mean(replies.shared, torch.full_like(samples, 1 / count))
        share = count / cohort.population
        drift = {n: h - share * (mean[n] - shared[n]) for n, h in state.items()}
        return {n: y - drift[n] if n in drift else y for n, y in mean.items()}, drift

    def check(self, method: Method) -> None:
        if "DynamicPull" not in {term.name for term in method.terms}:
            raise ConfigError(
                "DynamicMean undoes the drift that the term DynamicPull causes: add it (FedDyn)."
            )
        if method.server.name != "Replace":
            raise ConfigError(
                f"DynamicMean sets the server's model itself, and {method.server.name} would move it "
                "off the point that the clients' memories refer to."
            )
