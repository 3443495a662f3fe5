"""A method is FedAvg with some slots replaced; composing methods is filling several slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from torch import Tensor

from fedskew import tree
from fedskew.errors import ConfigError
from fedskew.part import Aggregate, Network, Objective, Part, Schedule, Server, Share, Term
from fedskew.parts.aggregates import Mean
from fedskew.parts.networks import Plain
from fedskew.parts.objectives import CrossEntropy
from fedskew.parts.schedules import OnePhase
from fedskew.parts.servers import Replace
from fedskew.parts.shares import Everything
from fedskew.phase import Context, Update, Value
from fedskew.step import SGD
from fedskew.tree import Tree
from fedskew.values import Batch, Model, View


@dataclass(frozen=True)
class Method:
    """The slots of a federated method; the defaults are FedAvg."""

    objective: Objective = CrossEntropy()
    terms: tuple[Term, ...] = ()
    schedule: Schedule = OnePhase()
    share: Share = Everything()
    aggregate: Aggregate = Mean()
    server: Server = Replace()
    network: Network = Plain()
    personal: str = "trained"  # which model a client predicts with at home
    overall: str = "server"  # which model answers for everybody: "server" or "ensemble"

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"a method can hold the part {twice[0]} only once.")
        for part in self.parts:
            part.check(self)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part, in the order in which hooks are called."""
        return (
            *(self.objective, *self.terms, self.schedule, self.share),
            *(self.aggregate, self.server, self.network),
        )

    def __add__(self, other: Method) -> Method:
        """Fills the slots of both; a slot filled twice is an error that names both sides."""
        merged = self
        for slot in (field.name for field in fields(Method)):
            mine, theirs, default = getattr(self, slot), getattr(other, slot), getattr(_FEDAVG, slot)
            if slot == "terms":
                merged = replace(merged, terms=mine + tuple(term for term in theirs if term not in mine))
            elif theirs not in (default, mine):
                if mine != default:
                    raise ConfigError(f"both fill the slot '{slot}': {mine} and {theirs}. Keep one of the two.")
                merged = replace(merged, **{slot: theirs})
        return merged

    def filled(self) -> dict[str, tuple[str, ...]]:
        """The slots that differ from FedAvg and what is in them."""
        out = {}
        for slot in (field.name for field in fields(Method)):
            value = getattr(self, slot)
            if value != getattr(_FEDAVG, slot):
                out[slot] = tuple(map(str, value)) if slot == "terms" else (str(value),)
        return out


_FEDAVG = Method()


class Kit(NamedTuple):
    """What a schedule builds its updates from."""

    model: Model
    method: Method
    shared: tuple[str, ...]
    solver: SGD

    def view(self, part: Part, work: Tree, context: Context) -> View:
        """The part's window on the working tree."""
        return View(
            self.model,
            tree.pick(work, self.model.names),
            context.received,
            context.server.get(part.name, {}),
            tree.under(work, part.name),
            context.data,
            context.round,
            context.rate,
        )

    def main(
        self,
        trains: Sequence[str] | None = None,
        objective: Objective | None = None,
        terms: Sequence[Term] | None = None,
        solver: SGD | None = None,
    ) -> Update:
        """The ordinary update: the network under objective and terms, by SGD."""
        goal = objective or self.method.objective
        added = tuple(self.method.terms if terms is None else terms)
        own = tuple(f"{term.name}/{name}" for term in added for name in term.own(self.model))
        moving = tuple(trains or self.model.trainable) + own

        def loss(work: Tree, batch: Batch, context: Context) -> Value:
            params = tree.pick(work, self.model.names)
            out = self.model.forward(params, batch.x, True)
            value = goal.loss(out, batch, self.view(goal, work, context))
            total = value
            for term in added:
                total = term.loss(total, out, batch, self.view(term, work, context))
            return Value(total, value, out.buffers)

        def pull(work: Tree, context: Context) -> Tree:
            total: dict[str, Tensor] = {}
            for term in added:
                for name, value in term.force(self.view(term, work, context)).items():
                    total[name] = total[name] + value if name in total else value
            return total

        rule = solver or self.solver
        for term in added:
            rule = term.solver(rule)
        return Update(moving, loss, pull, rule)
