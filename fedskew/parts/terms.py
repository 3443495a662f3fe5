"""Terms for the sake of the average: added to local training, in the loss or as a pull on the parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from fedskew import losses, tree
from fedskew.errors import ConfigError
from fedskew.part import Section, Term
from fedskew.ranges import NonNegative, Positive
from fedskew.step import SGD
from fedskew.tree import Tree
from fedskew.values import Batch, Cohort, Model, Out, Run, View

if TYPE_CHECKING:
    from fedskew.method import Method


@dataclass(frozen=True)
class Proximal(Term):
    """Pulls the shared parameters towards the received ones: mu/2 ||w - w0||^2 (FedProx, Li et al., 2020)."""

    mu: NonNegative = 0.01
    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def force(self, view: View) -> Tree:
        return {n: self.mu * (view.params[n] - view.received[n]) for n in view.pulled}


@dataclass(frozen=True)
class ControlVariates(Term):
    """Corrects each step by c - c_k (SCAFFOLD, Karimireddy et al., 2020, option II).

    Local steps are without momentum unless `momentum_correction` divides by FedNova's effective steps.
    """

    momentum_correction: bool = False
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    one_network: ClassVar[bool] = True
    reveals: ClassVar[str] = "a second vector as long as the model"

    def server_state(self, shared: Tree, population: int) -> Tree:
        return tree.zeros(shared)

    def broadcast(self, state: Tree) -> Tree:
        return state

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return tree.zeros(tree.pick(params, model.trainable))

    def solver(self, solver: SGD) -> SGD:
        return solver if self.momentum_correction else replace(solver, momentum=0.0)

    def force(self, view: View) -> Tree:
        return {n: c - view.client[n] for n, c in view.server.items()}

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        length = view.rate * (run.effective_steps if self.momentum_correction else run.steps)
        new = {
            n: view.client[n] - c + (view.received[n] - run.emitted[n]) / length.clamp(min=view.rate)
            for n, c in view.server.items()
        }
        new = tree.where(run.steps > 0, new, view.client)
        return tree.subtract(new, view.client), {**view.client, **new}

    def absorb(self, state: Tree, extra: Tree, cohort: Cohort) -> Tree:
        return tree.apply(lambda c, change: c + change.sum(0) / cohort.population, state, extra)

    def check(self, method: Method) -> None:
        if not method.schedule.descends:
            raise ConfigError(
                "ControlVariates reads a client's gradient off how far its model moved at the learning rate, "
                f"and {method.schedule.name} moves it by another rule."
            )
        if "DynamicPull" in {term.name for term in method.terms}:
            raise ConfigError(
                "ControlVariates and DynamicPull both cancel a client's drift: together, twice."
            )


@dataclass(frozen=True)
class DynamicPull(Term):
    """Pulls towards the received parameters corrected by all former drifts (FedDyn, Acar et al., 2021).

    The client remembers g_k / alpha. The default alpha is the authors' for CIFAR-10.
    """

    alpha: NonNegative = 0.01
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    one_network: ClassVar[bool] = True

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return tree.zeros(tree.pick(params, model.trainable))

    def force(self, view: View) -> Tree:
        drift = view.client
        return {n: self.alpha * (view.params[n] - view.received[n] - drift[n]) for n in view.pulled}

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        new = {n: view.client[n] - (run.emitted[n] - view.received[n]) for n in view.pulled}
        return {}, {**view.client, **new}

    def check(self, method: Method) -> None:
        if method.aggregate.name != "DynamicMean":
            raise ConfigError(
                f"DynamicPull drifts on purpose and {method.aggregate.name} does not undo it: "
                "use the aggregate DynamicMean (FedDyn)."
            )


@dataclass(frozen=True)
class Contrast(Term):
    """Features near the received model's and off the client's previous one's (MOON, Li et al., 2021).

    At the first participation there is no previous model and no term.
    """

    weight: NonNegative = 1.0
    temperature: Positive = 0.5
    needs: ClassVar[tuple[Section, ...]] = ("body",)
    one_network: ClassVar[bool] = True

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return {**tree.prefix(tree.clone(params), "model"), "times": torch.zeros(())}

    def loss(self, base: Tensor, out: Out, batch: Batch, view: View) -> Tensor:
        received = view.model.forward(view.received, batch.x, False).features
        previous = view.model.forward(tree.under(view.client, "model"), batch.x, False).features
        gap = losses.contrastive(
            out.features, received, previous, temperature=self.temperature, live=batch.live
        )
        return torch.where(view.client["times"] > 0, base + self.weight * gap, base)

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        new = {**tree.prefix(run.emitted, "model"), "times": view.client["times"] + 1}
        return {}, tree.where(run.steps > 0, new, view.client)


@dataclass(frozen=True)
class FeatureMatch(Term):
    """Keeps the distribution of features near the received model's by MMD (FedMMD, Yao et al., 2018)."""

    weight: NonNegative = 0.1
    needs: ClassVar[tuple[Section, ...]] = ("body",)
    one_network: ClassVar[bool] = True

    def loss(self, base: Tensor, out: Out, batch: Batch, view: View) -> Tensor:
        received = view.model.forward(view.received, batch.x, False).features
        return base + self.weight * losses.mmd(out.features, received, live=batch.live)
