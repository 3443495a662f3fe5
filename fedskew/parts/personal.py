"""Terms for the sake of the client: what it keeps to itself and predicts with at home."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedskew import losses, tree
from fedskew.errors import ConfigError
from fedskew.models.batchnorm import refreshed
from fedskew.part import Section, Term
from fedskew.ranges import Fraction, Positive
from fedskew.tree import Tree
from fedskew.values import Batch, Model, Out, Run, View


@dataclass(frozen=True)
class Inherit(Term):
    """A private model inherits from each local one and teaches the next (FedPHP, Li et al., 2021).

    Eq. 11 is damaged in the text; the factor T^2 is read into it (`kd = "no_T2"` leaves it out).
    """

    weight: Fraction = 0.1
    by: Literal["kd", "mmd"] = "kd"
    kd: Literal["hinton", "no_T2", "author"] = "hinton"
    temperature: Positive = 4.0
    mu: Fraction = 0.9
    mu_max: Fraction = 1.0
    rounds: Positive | None = None  # Q*T of the schedule of mu; default: of this run
    whole_rounds: bool = False  # max(int(Q*T), 1), as the authors' code has it
    bn_refresh: bool = False  # batch-norm statistics of the private model measured anew
    personal: ClassVar[bool] = True
    scales: ClassVar[bool] = True
    one_network: ClassVar[bool] = True
    offers: ClassVar[str] = "inherited"
    tells: ClassVar[tuple[str, ...]] = ("mu",)

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
        mu = self._mu(times, view)
        heir = tree.under(view.client, "model")
        mixed = {n: _mix(view.params[n], old, mu) for n, old in heir.items()}
        if self.bn_refresh:
            mixed = refreshed(view.model, mixed, view.data.everything())
        return {}, tree.where(run.steps > 0, {**tree.prefix(mixed, "model"), "times": times + 1}, view.client)

    def models(self, view: View) -> dict[str, Tree]:
        return {"inherited": tree.under(view.client, "model")}

    def tell(self, view: View) -> Tree:
        return {"mu": self._mu(view.client["times"] - 1, view)}

    def _mu(self, times: Tensor, view: View) -> Tensor:
        """What the private model keeps of itself: nearly all late in a long run."""
        rounds = self.rounds or view.expected
        return (self.mu * times / (max(int(rounds), 1) if self.whole_rounds else rounds)).clamp(
            0, self.mu_max
        )


def _mix(new: Tensor, old: Tensor, mu: Tensor) -> Tensor:
    if not new.is_floating_point():
        return new
    return (1 - mu.to(new.dtype)) * new + mu.to(new.dtype) * old


@dataclass(frozen=True)
class OwnHead(Term):
    """A personal head on the same features adds its logits to the shared ones (FedRoD, Chen and Chao, 2022).

    The linear form; a clipping norm is that of both heads and the body together.
    """

    personal: ClassVar[bool] = True
    needs: ClassVar[tuple[Section, ...]] = ("head",)
    one_network: ClassVar[bool] = True
    offers: ClassVar[str] = "own_heads"
    completes: ClassVar[bool] = True

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        return tree.clone(tree.pick(params, model.head))

    def own(self, model: Model) -> tuple[str, ...]:
        if sum(layer[0] in model.head for layer in model.layers) > 1:
            raise ConfigError(
                f"OwnHead adds the logits of two linear heads, and this network's head has the entries "
                f"{', '.join(model.head)}: name its last layer alone as the head."
            )
        return model.head

    def loss(self, base: Tensor, out: Out, batch: Batch, view: View) -> Tensor:
        bias = [view.client[n] for n in view.model.head if n != view.model.proxies]
        own = F.linear(out.features.detach(), view.client[view.model.proxies], *bias)
        return base + losses.cross_entropy(out.logits.detach() + own, batch.y, live=batch.live)

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        return {}, view.client

    def models(self, view: View) -> dict[str, Tree]:
        summed = {n: view.params[n] + own for n, own in view.client.items()}
        return {"own_heads": {**view.params, **summed}}
