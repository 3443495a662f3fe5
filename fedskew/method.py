"""A method is FedAvg with some slots replaced; composing methods is filling several slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedskew import tree
from fedskew.errors import ConfigError, unknown
from fedskew.part import Aggregate, Network, Objective, Part, Schedule, Server, Share, Term
from fedskew.parts.aggregates import Mean
from fedskew.parts.networks import Plain
from fedskew.parts.objectives import CrossEntropy
from fedskew.parts.schedules import OnePhase
from fedskew.parts.servers import Replace
from fedskew.parts.shares import Everything
from fedskew.phase import Context, Update, Value
from fedskew.step import SGD, Step
from fedskew.tree import Tree
from fedskew.values import Batch, Model, Out, View

Lesson = Callable[[Tensor, Out, Batch, Tree], Tensor]  # (loss, output, batch, working tree) -> loss
BUILT_IN = ("trained", "global", "adapted", "adapted_step")  # personal models that every method has


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
    personal: str | None = None  # which model a client predicts with at home, if not the one a part brings

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"a method can hold the part {twice[0]} only once.")
        for part in self.parts:
            for section in part.needs:
                if section not in self.share.gives:
                    what = "something" if section == "anything" else f"the {section}"
                    raise ConfigError(
                        f"{part.name} needs {what} of the network to be shared, "
                        f"and {self.share.name} does not share it."
                    )
            part.check(self)
        bringing = [part for part in self.parts if part.offers]
        if self.personal is not None:
            self.check_model(self.personal)
        elif len(bringing) > 1:
            raise ConfigError(
                f"{bringing[0].name} and {bringing[1].name} both bring a model to predict with at home, "
                f"'{bringing[0].offers}' and '{bringing[1].offers}': keep one of the two."
            )

    def check_model(self, name: str) -> None:
        """Raises ConfigError unless clients have a personal model of this name."""
        models = dict.fromkeys((*BUILT_IN, *(part.offers for part in self.parts if part.offers)))
        if name not in models:
            raise ConfigError(unknown("personal model of this method", name, models))

    @property
    def home(self) -> str:
        """The model a client predicts with at home."""
        return self.personal or next((part.offers for part in self.parts if part.offers), "trained")

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part, in the order in which hooks are called."""
        return (
            *(self.objective, *self.terms, self.schedule, self.share),
            *(self.aggregate, self.server, self.network),
        )

    def __add__(self, other: Method) -> Method:
        """Fills the slots of both; a slot filled twice is an error that names both sides."""
        filled: dict[str, Any] = {"terms": self.terms + tuple(t for t in other.terms if t not in self.terms)}
        for slot in (field.name for field in fields(Method) if field.name != "terms"):
            mine, theirs = getattr(self, slot), getattr(other, slot)
            if mine == getattr(_FEDAVG, slot) or (is_free(slot, mine) and not is_free(slot, theirs)):
                filled[slot] = theirs
            elif not is_free(slot, theirs) and theirs != mine:
                raise ConfigError(f"both fill the slot '{slot}': {mine} and {theirs}. Keep one of the two.")
        return replace(self, **filled)


_FEDAVG = Method()


def is_free(slot: str, held: object) -> bool:
    """Whether a slot holds FedAvg's part, whatever its settings: it gives way to another part."""
    return type(held) is type(getattr(_FEDAVG, slot))


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
            context.expected,
            self.shared,
            lambda params: self.score(params, context),
        )

    def score(self, params: Tree, context: Context) -> Tensor:
        """The mean objective of a network over the client's data, in evaluation mode."""
        goal = self.method.objective
        total, count = torch.zeros(()), torch.tensor(0)
        for batch in context.data.everything():
            out = self.model.forward(params, batch.x, False)
            total = total + goal.loss(out, batch, self.view(goal, params, context)) * batch.size()
            count = count + batch.size()
        return total / count.clamp(min=1)

    def main(
        self,
        trains: Sequence[str] | None = None,
        objective: Objective | None = None,
        terms: Sequence[Term] | None = None,
        solver: SGD | None = None,
        lesson: Lesson | None = None,
    ) -> Update:
        """The ordinary update: the network under objective and terms, by SGD; `lesson` has the last word."""
        goal = objective or self.method.objective
        added = sorted(self.method.terms if terms is None else terms, key=lambda term: not term.scales)
        own = tuple(f"{term.name}/{name}" for term in added for name in term.own(self.model))
        moving = tuple(self.model.trainable if trains is None else trains) + own

        def loss(work: Tree, batch: Batch, context: Context) -> Value:
            params = tree.pick(work, self.model.names)
            out = self.model.forward(params, batch.x, True)
            value = goal.loss(out, batch, self.view(goal, work, context))
            total = value
            for term in added:
                total = term.loss(total, out, batch, self.view(term, work, context))
            if lesson:
                total = lesson(total, out, batch, work)
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

    def beside(
        self,
        place: str,
        objective: Objective,
        solver: Step,
        pull: Callable[[Tree, Context], Tree] | None = None,
        lesson: Lesson | None = None,
        repeats: int = 1,
    ) -> Update:
        """An update of a second network of the same shape, whose entries are kept under `place`."""

        def loss(work: Tree, batch: Batch, context: Context) -> Value:
            params = tree.under(work, place)
            out = self.model.forward(params, batch.x, True)
            value = objective.loss(out, batch, self.view(objective, params, context))
            total = lesson(value, out, batch, work) if lesson else value
            return Value(total, value, tree.prefix(out.buffers, place))

        return Update(tuple(f"{place}/{n}" for n in self.model.trainable), loss, pull, solver, repeats)
