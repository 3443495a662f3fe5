"""A local round as data: phases, their updates, and what is constant meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from fedskew.step import Step
from fedskew.tree import Tree
from fedskew.values import Batch, Client


class Context(NamedTuple):
    """What is constant during one client's round."""

    received: Tree
    server: dict[str, Tree]
    data: Client
    round: int
    rate: float
    expected: float


class Value(NamedTuple):
    """The loss that is differentiated, the objective that is logged, and new statistics."""

    total: Tensor
    objective: Tensor
    buffers: Tree


class Update(NamedTuple):
    """Which entries move, what is minimised, what pulls, how one step is taken."""

    trains: tuple[str, ...]
    loss: Callable[[Tree, Batch, Context], Value] | None
    pull: Callable[[Tree, Context], Tree] | None
    step: Step
    repeats: int = 1


class Phase(NamedTuple):
    """A slice of the client's batch plan and an ordered tuple of updates."""

    cut: Callable[[int, int], Sequence[int]]  # (steps, epochs) -> positions in the plan
    updates: tuple[Update, ...]
    emits: bool = False  # the model after this phase is uploaded
