"""Terms: additions to local training, in the loss or as a pull on the parameters."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedskew import losses, tree
from fedskew.part import Term
from fedskew.step import SGD
from fedskew.tree import Tree
from fedskew.values import Batch, Cohort, Model, Out, Run, View


@dataclass(frozen=True)
class Proximal(Term):
    """Pulls the parameters towards the received ones: mu/2 ||w - w0||^2 (FedProx, Li et al., 2020)."""

    mu: float = 0.01

    def force(self, view: View) -> Tree:
        names = view.model.trainable
        return {n: self.mu * (view.params[n] - view.received[n]) for n in names}


@dataclass(frozen=True)
class ControlVariates(Term):
    """Corrects each step by c - c_k (SCAFFOLD, Karimireddy et al., 2020, option II).

    Local steps are without momentum unless `momentum_correction` divides by FedNova's effective steps.
    """

    momentum_correction: bool = False
    reveals: ClassVar[str] = "a second vector as long as the model"

    def server_state(self, shared: Tree, population: int) -> Tree:
        return tree.zeros(shared)

    def broadcast(self, state: Tree) -> Tree:
        return state

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return tree.zeros(params)

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
        return tree.subtract(new, view.client), new

    def absorb(self, state: Tree, extra: Tree, cohort: Cohort) -> Tree:
        return tree.apply(lambda c, change: c + change.sum(0) / cohort.population, state, extra)


@dataclass(frozen=True)
class Inherit(Term):
    """A private model inherits from every local one and teaches the next (FedPHP, HPM; MAP Eq. 9-12).

    Eq. 11 is damaged in the text; the factor T^2 is read into it (`kd = "no_T2"` leaves it out).
    """

    weight: float = 0.1
    by: Literal["kd", "mmd"] = "kd"
    kd: Literal["hinton", "no_T2", "author"] = "hinton"
    temperature: float = 4.0
    mu: float = 0.9
    mu_max: float = 1.0
    rounds: float | None = None  # Q*T of the schedule of mu; default: of this run
    personal: ClassVar[bool] = True

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return {**tree.prefix(tree.clone(params), "model"), "times": torch.zeros(())}

    def loss(self, base: Tensor, out: Out, batch: Batch, view: View) -> Tensor:
        teacher = view.model.forward(tree.under(view.client, "model"), batch.x, False)
        if self.by == "kd":
            lesson = losses.distillation(
                out.logits, teacher.logits, temperature=self.temperature, form=self.kd, live=batch.live
            )
        else:
            lesson = losses.mmd(out.features, teacher.features, live=batch.live)
        taught = (1 - self.weight) * base + self.weight * lesson
        return torch.where(view.client["times"] > 0, taught, base)

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        times = view.client["times"]
        mu = (self.mu * times / (self.rounds or view.expected)).clamp(0, self.mu_max)
        heir = tree.under(view.client, "model")
        mixed = {n: _mix(view.params[n], old, mu) for n, old in heir.items()}
        return {}, {**tree.prefix(mixed, "model"), "times": times + 1}

    def models(self, view: View) -> dict[str, Tree]:
        return {"inherited": tree.under(view.client, "model")}


def _mix(new: Tensor, old: Tensor, mu: Tensor) -> Tensor:
    if not new.is_floating_point():
        return new
    return (1 - mu.to(new.dtype)) * new + mu.to(new.dtype) * old
