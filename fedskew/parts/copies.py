"""Schedules that train a private network beside the uploaded one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from fedskew import losses, tree
from fedskew.errors import ConfigError
from fedskew.part import Schedule, Section
from fedskew.parts.schedules import whole
from fedskew.phase import Context, Phase, Update, Value
from fedskew.ranges import Count, Fraction, NonNegative, Positive
from fedskew.step import SGD
from fedskew.tree import Tree
from fedskew.values import Batch, Model, Out, Run, View

if TYPE_CHECKING:
    from fedskew.method import Kit, Lesson, Method


@dataclass(frozen=True)
class PrivateCopy(Schedule):
    """A private network, pulled towards the received one, is trained beside it (Ditto, Li et al., 2021)."""

    weight: NonNegative = 0.1
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    one_network: ClassVar[bool] = True
    offers: ClassVar[str] = "private"

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return tree.clone(params)

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        def pull(work: Tree, context: Context) -> Tree:
            view = kit.view(self, work, context)
            gaps = {n: self.weight * (view.client[n] - view.received[n]) for n in view.pulled}
            return tree.prefix(gaps, self.name)

        private = kit.beside(self.name, kit.method.objective.at_home(), kit.solver, pull)
        return (Phase(whole, (kit.main(), private), emits=True),)

    def models(self, view: View) -> dict[str, Tree]:
        return {"private": view.client}


@dataclass(frozen=True)
class MutualLearning(Schedule):
    """A private network and the uploaded one teach each other (FedDML; FML, Shen et al., 2020).

    On each batch the uploaded network steps first and the private one learns from it as it is then, as in deep
    mutual learning (Zhang et al., 2018); the MAP authors' code steps both at once. The weights are ours.
    """

    weight: Fraction = 0.5  # of the private network's lesson to the uploaded one
    private_weight: Fraction = 0.5  # of the uploaded network's lesson to the private one
    temperature: Positive = 1.0
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    one_network: ClassVar[bool] = True
    offers: ClassVar[str] = "private"

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return tree.clone(params)

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        model, goal = kit.model, kit.method.objective.at_home()
        by_private = self._lesson(model, self.weight, lambda work: tree.under(work, self.name))
        by_uploaded = self._lesson(model, self.private_weight, lambda work: tree.pick(work, model.names))
        private = kit.beside(self.name, goal, kit.solver, lesson=by_uploaded)
        return (Phase(whole, (kit.main(lesson=by_private), private), emits=True),)

    def _lesson(self, model: Model, weight: float, teacher: Callable[[Tree], Tree]) -> Lesson:
        def taught(base: Tensor, out: Out, batch: Batch, work: Tree) -> Tensor:
            answers = model.forward(teacher(work), batch.x, True).logits
            gap = losses.distillation(out.logits, answers, temperature=self.temperature, live=batch.live)
            return (1 - weight) * base + weight * gap

        return taught

    def models(self, view: View) -> dict[str, Tree]:
        return {"private": view.client}


@dataclass(frozen=True)
class MoreauEnvelope(Schedule):
    """A private network is trained near the uploaded one, which follows it (pFedMe, Dinh et al., 2020).

    Rates and strength are the authors' for CIFAR-10, without their weight decay of 0.001; no step has momentum.
    """

    strength: NonNegative = 15.0
    lr: Positive = 0.01  # of the private network
    repeats: Count = 5
    weight_decay: NonNegative = 0.0
    descends: ClassVar[bool] = False
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    one_network: ClassVar[bool] = True
    offers: ClassVar[str] = "private"

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return tree.clone(params)

    def start(self, client: Tree, received: Tree) -> Tree:
        return {**tree.prefix(received, "now"), **tree.prefix(client, "before")}

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        now, before = tree.under(view.client, "now"), tree.under(view.client, "before")
        return {}, tree.where(run.steps > 0, now, before)

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        def gaps(work: Tree, context: Context) -> Tree:
            view = kit.view(self, work, context)
            return {
                n: self.strength * (view.params[n] - view.client[f"now/{n}"]) for n in kit.model.trainable
            }

        def back(work: Tree, context: Context) -> Tree:
            return tree.prefix(tree.scale(gaps(work, context), -1), place)

        place = f"{self.name}/now"
        rule = SGD(self.lr, weight_decay=self.weight_decay, clip=kit.solver.clip)
        private = _told(kit.beside(place, kit.method.objective, rule, back, repeats=self.repeats), place)
        follow = Update(kit.model.trainable, None, gaps, SGD(kit.solver.lr))
        return (Phase(whole, (private, follow), emits=True),)

    def models(self, view: View) -> dict[str, Tree]:
        return {"private": view.client}

    def check(self, method: Method) -> None:
        if method.terms:
            raise ConfigError(
                f"{method.terms[0].name} acts on the training of the uploaded network, and with "
                "MoreauEnvelope (pFedMe) that one has no loss: it follows the private network."
            )


def _told(update: Update, place: str) -> Update:
    """The same update; the uploaded network, which sees no data itself, gets the new statistics too."""
    inner = update.loss
    assert inner is not None

    def loss(work: Tree, batch: Batch, context: Context) -> Value:
        value = inner(work, batch, context)
        return value._replace(buffers={**value.buffers, **tree.under(value.buffers, place)})

    return update._replace(loss=loss)
