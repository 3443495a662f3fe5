"""Schedules: the phases of a local round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Literal

from fedskew.errors import ConfigError
from fedskew.part import Schedule, Section
from fedskew.phase import Phase
from fedskew.ranges import Positive
from fedskew.step import MetaStep

if TYPE_CHECKING:
    from fedskew.method import Kit, Method


def whole(steps: int, epochs: int) -> range:
    """The whole plan."""
    return range(steps)


@dataclass(frozen=True)
class OnePhase(Schedule):
    """All epochs on all parameters, then the upload (FedAvg, McMahan et al., 2017)."""

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        return (Phase(whole, (kit.main(),), emits=True),)


@dataclass(frozen=True)
class HeadThenBody(Schedule):
    """All epochs but one on the private part, the last on the shared part (FedRep, Collins et al., 2021)."""

    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        shared = frozenset(kit.shared)
        head = [name for name in kit.model.trainable if name not in shared]
        body = [name for name in kit.model.trainable if name in shared]
        return (
            Phase(lambda steps, epochs: range(steps - steps // epochs), (kit.main(head),)),
            Phase(lambda steps, epochs: range(steps - steps // epochs, steps), (kit.main(body),), emits=True),
        )

    def check(self, method: Method) -> None:
        if {"body", "head"} <= set(method.share.gives):
            raise ConfigError(
                f"HeadThenBody trains the private part first, and {method.share.name} leaves nothing "
                "private: share Body or Top."
            )


@dataclass(frozen=True)
class AggregateThenPersonalise(Schedule):
    """Half of the steps serve the upload, the others the personal model (MAP, Li et al., 2024, Alg. 1).

    `released` is the authors' code: all steps, then a tenth as many (5 or more) at a fifth of the rate.
    """

    mode: Literal["paper", "released"] = "paper"
    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        terms, goal = kit.method.terms, kit.method.objective.at_home()
        solver = kit.solver if self.mode == "paper" else replace(kit.solver, lr=0.2 * kit.solver.lr)
        upload = kit.main(terms=[term for term in terms if not term.personal])
        home = kit.main(objective=goal, terms=[term for term in terms if term.personal], solver=solver)
        if self.mode == "paper":
            first, second = _first_half, _second_half
        else:
            first, second = whole, _once_more
        return Phase(first, (upload,), emits=True), Phase(second, (home,))


def _first_half(steps: int, epochs: int) -> Sequence[int]:
    return range(ceil(steps / 2))


def _second_half(steps: int, epochs: int) -> Sequence[int]:
    return range(ceil(steps / 2), steps)


def _once_more(steps: int, epochs: int) -> Sequence[int]:
    return [position % steps for position in range(max(steps // 10, 5))]


@dataclass(frozen=True)
class MetaSteps(Schedule):
    """Trains for how the network does after one more step at home (Per-FedAvg, Fallah et al., 2020).

    Each step takes two batches, or three in its Hessian-free form; a client with fewer sees them again.
    """

    outer: Positive = 1e-3
    order: Literal["first", "hessian_free"] = "first"
    delta: Positive = 1e-3
    descends: ClassVar[bool] = False
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    offers: ClassVar[str] = "adapted"
    follows_server: ClassVar[bool] = True

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        solver = kit.solver
        rule = MetaStep(solver.lr, self.outer, self.order, self.delta, solver.weight_decay, solver.longest)
        return (Phase(whole, (kit.main()._replace(step=rule),), emits=True),)
