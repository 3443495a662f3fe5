"""How one step is taken: the step rule and what it is told."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from torch import Tensor

from fedskew import tree
from fedskew.kernels.descent import Rates, clipped, descend
from fedskew.ranges import Decay, Natural, NonNegative, Positive, enforce
from fedskew.tree import Tree
from fedskew.values import Batch


class Gradient(NamedTuple):
    """Value and gradient of an update's loss, forces included; `value` is the objective alone."""

    value: Tensor
    direction: Tree
    buffers: Tree


GradientAt = Callable[[Tree, Batch], Gradient]


@dataclass(frozen=True)
class Step(ABC):
    """How one step is taken."""

    @property
    def batches(self) -> int:
        """How many batches one step consumes."""
        return 1

    @abstractmethod
    def init(self, params: Tree) -> Tree:
        """The step's memory at the start of a phase."""

    @abstractmethod
    def take(
        self, params: Tree, memory: Tree, batches: Sequence[Batch], gradient: GradientAt
    ) -> tuple[Tree, Tree, Gradient]: ...

    @abstractmethod
    def effective(self, steps: Tensor) -> Tensor:
        """FedNova's a_k: how far `steps` steps go under a constant gradient, in units of the rate."""


@dataclass(frozen=True)
class SGD(Step):
    """Stochastic gradient descent as torch defines it; the memory never survives a round."""

    lr: Positive = 0.01
    momentum: Decay = 0.0
    weight_decay: NonNegative = 0.0
    clip: Positive | None = None  # largest norm of the gradient
    warmup: Natural = 0  # rounds in which the rate grows linearly

    def __post_init__(self) -> None:
        enforce(self)

    def at(self, round: int) -> SGD:
        """The rule of this round (rounds count from 0)."""
        factor = min((round + 1) / self.warmup, 1.0) if self.warmup else 1.0
        return replace(self, lr=self.lr * factor, warmup=0)

    @property
    def longest(self) -> float:
        """The largest norm a gradient may have."""
        return math.inf if self.clip is None else self.clip

    def init(self, params: Tree) -> Tree:
        if not self.momentum:
            return {}
        return {name: value.new_zeros(value.shape) for name, value in params.items()}

    def take(
        self, params: Tree, memory: Tree, batches: Sequence[Batch], gradient: GradientAt
    ) -> tuple[Tree, Tree, Gradient]:
        found = gradient(params, batches[0])
        rates = Rates(self.lr, self.momentum, self.weight_decay, self.longest)
        new, memory = descend(params, found.direction, memory, rates)
        return new, memory, found

    def effective(self, steps: Tensor) -> Tensor:
        rho, tau = self.momentum, steps.double()  # a difference of nearly equal numbers
        if not rho:
            return steps
        return ((tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)).to(steps.dtype)


@dataclass(frozen=True)
class MetaStep(Step):
    """Descends the loss as it is after one plain step on another batch (Per-FedAvg, Fallah et al., 2020).

    Each gradient is clipped, and weight decay is part of it; there is no momentum.
    """

    inner: float = 0.01
    outer: float = 0.001
    order: Literal["first", "hessian_free"] = "first"
    delta: float = 1e-3
    weight_decay: float = 0.0
    clip: float = math.inf

    @property
    def batches(self) -> int:
        return 2 if self.order == "first" else 3

    def init(self, params: Tree) -> Tree:
        return {}

    def take(
        self, params: Tree, memory: Tree, batches: Sequence[Batch], gradient: GradientAt
    ) -> tuple[Tree, Tree, Gradient]:
        def slope(at: Tree, batch: Batch) -> Gradient:
            found = gradient(at, batch)
            direction = clipped(found.direction, self.clip)
            decayed = tree.apply(lambda g, w: g + self.weight_decay * w, direction, at)
            return found._replace(direction=decayed)

        first = slope(params, batches[0])
        second = slope(_moved(params, first.direction, -self.inner), batches[1])
        direction = second.direction
        if self.order == "hessian_free":
            ahead, behind = (
                slope(_moved(params, direction, way), batches[2]).direction
                for way in (self.delta, -self.delta)
            )
            bend = tree.scale(tree.subtract(ahead, behind), self.inner / (2 * self.delta))
            direction = tree.subtract(direction, bend)
        return _moved(params, direction, -self.outer), memory, second._replace(value=first.value)

    def effective(self, steps: Tensor) -> Tensor:
        return steps


def _moved(params: Tree, direction: Tree, length: float) -> Tree:
    return tree.apply(lambda w, g: w + length * g, params, direction)
