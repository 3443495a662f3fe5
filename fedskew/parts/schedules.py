"""Schedules: the phases of a local round."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from fedskew import losses, tree
from fedskew.part import Schedule
from fedskew.parts.objectives import CrossEntropy
from fedskew.phase import Context, Phase, Update, Value
from fedskew.tree import Tree
from fedskew.values import Batch, Model, View

if TYPE_CHECKING:
    from fedskew.method import Kit


def whole(steps: int, epochs: int) -> range:
    """The whole plan."""
    return range(steps)


@dataclass(frozen=True)
class OnePhase(Schedule):
    """All epochs on all parameters, then the upload (FedAvg)."""

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        return (Phase(whole, (kit.main(),), emits=True),)


@dataclass(frozen=True)
class HeadThenBody(Schedule):
    """All epochs but the last on the private part, the last one on the shared part (FedRep)."""

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        shared = frozenset(kit.shared)
        head = tuple(name for name in kit.model.trainable if name not in shared)
        body = tuple(name for name in kit.model.trainable if name in shared)
        return (
            Phase(lambda steps, epochs: range(steps - steps // epochs), (kit.main(head),)),
            Phase(lambda steps, epochs: range(steps - steps // epochs, steps), (kit.main(body),), emits=True),
        )


@dataclass(frozen=True)
class AggregateThenPersonalise(Schedule):
    """The first half of the steps serves the upload, the second the personal model (MAP Alg. 1).

    Terms that serve the personal model and plain softmax act in the second half only.
    """

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        terms = kit.method.terms
        upload = kit.main(terms=[term for term in terms if not term.personal])
        home = kit.main(objective=CrossEntropy(), terms=[term for term in terms if term.personal])
        return (
            Phase(lambda steps, epochs: range(ceil(steps / 2)), (upload,), emits=True),
            Phase(lambda steps, epochs: range(ceil(steps / 2), steps), (home,)),
        )


@dataclass(frozen=True)
class GlobalRegularised(Schedule):
    """A local extractor beside the global one, kept near it by a discriminator (GRP-FED Alg. 1).

    `d_loss = "bce"` is bounded below and has the printed loss' direction for every sample (docs/methods).
    """

    beta: float = 0.5
    d_loss: Literal["bce", "printed"] = "bce"
    r_loss: Literal["printed", "nonsaturating"] = "printed"
    local_classifier: Literal["client", "received"] = "client"

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        body = {n: params[n].clone() for n in model.names if n not in model.head}
        return {**tree.prefix(body, "body"), **tree.prefix(_discriminator(model.width, seed), "critic")}

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        extractor = [n for n in kit.model.trainable if n not in kit.model.head]
        body = tuple(f"{self.name}/body/{n}" for n in extractor)
        critic = tuple(f"{self.name}/critic/{n}" for n in ("0.weight", "0.bias", "1.weight", "1.bias"))
        updates = (
            kit.main(),
            Update(body, lambda *a: self._local(kit, *a), None, kit.solver),
            Update(critic, lambda *a: self._critic(kit, *a), None, kit.solver),
        )
        return (Phase(whole, updates, emits=True),)

    def _local(self, kit: Kit, work: Tree, batch: Batch, context: Context) -> Value:
        view = kit.view(self, work, context)
        head = view.params if self.local_classifier == "client" else view.received
        body = tree.under(view.client, "body")
        out = kit.model.forward({**head, **body}, batch.x, True)
        fit = losses.cross_entropy(out.logits, batch.y, live=batch.live)
        score = judge(tree.under(view.client, "critic"), out.features)
        fool = losses.fool(score, form=self.r_loss, live=batch.live)
        fresh = {n: v for n, v in out.buffers.items() if n in body}
        total = self.beta * fit + (1 - self.beta) * fool
        return Value(total, fit, tree.prefix(fresh, f"{self.name}/body"))

    def _critic(self, kit: Kit, work: Tree, batch: Batch, context: Context) -> Value:
        view = kit.view(self, work, context)
        critic, body = tree.under(view.client, "critic"), tree.under(view.client, "body")
        # Both in training mode and without keeping statistics, else D could tell them by batch-norm alone.
        real = kit.model.forward(view.received, batch.x, True).features.detach()
        made = kit.model.forward({**view.params, **body}, batch.x, True).features.detach()
        total = losses.discriminator(judge(critic, real), judge(critic, made), form=self.d_loss, live=batch.live)
        return Value(total, total, {})

    def models(self, view: View) -> dict[str, Tree]:
        return {"local": {**view.params, **tree.under(view.client, "body")}}


def _discriminator(width: int, seed: int) -> Tree:
    generator = torch.Generator().manual_seed(seed)
    bound = width**-0.5

    def uniform(*shape: int) -> Tensor:
        return (2 * torch.rand(*shape, generator=generator) - 1) * bound

    return {
        "0.weight": uniform(width, width),
        "0.bias": uniform(width),
        "1.weight": uniform(1, width),
        "1.bias": uniform(1),
    }


def judge(critic: Tree, features: Tensor) -> Tensor:
    """The discriminator's logit that features come from the global extractor: FC, LeakyReLU(0.2), FC."""
    hidden = torch.nn.functional.linear(features, critic["0.weight"], critic["0.bias"])
    hidden = torch.nn.functional.leaky_relu(hidden, 0.2)
    return torch.nn.functional.linear(hidden, critic["1.weight"], critic["1.bias"]).squeeze(-1)
