"""GRP-FED's schedule: a global and a local extractor, and a discriminator between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedskew import losses, tree
from fedskew.errors import ConfigError
from fedskew.part import Schedule, Section
from fedskew.parts.schedules import whole
from fedskew.phase import Context, Phase, Update, Value
from fedskew.ranges import Fraction
from fedskew.tree import Tree
from fedskew.values import Batch, Model, View

if TYPE_CHECKING:
    from fedskew.method import Kit, Method

CRITIC = ("0.weight", "0.bias", "1.weight", "1.bias")


@dataclass(frozen=True)
class GlobalRegularised(Schedule):
    """A local extractor beside the global one, kept near it by a discriminator (GRP-FED, Chou et al., 2021).

    `d_loss = "bce"` is bounded below and has the printed loss' direction for every sample (docs/methods).
    """

    beta: Fraction = 0.5
    d_loss: Literal["bce", "printed"] = "bce"
    r_loss: Literal["printed", "nonsaturating"] = "printed"
    local_classifier: Literal["client", "received"] = "client"
    needs: ClassVar[tuple[Section, ...]] = ("body", "head")
    one_network: ClassVar[bool] = True
    offers: ClassVar[str] = "local"
    completes: ClassVar[bool] = True

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        body = tree.clone(tree.pick(params, model.body))
        return {**tree.prefix(body, "body"), **tree.prefix(_critic(model.width, seed), "critic")}

    def phases(self, kit: Kit) -> tuple[Phase, ...]:
        body = tuple(f"{self.name}/body/{n}" for n in kit.model.body if n not in kit.model.buffers)
        critic = tuple(f"{self.name}/critic/{n}" for n in CRITIC)
        updates = (
            kit.main(),
            Update(body, lambda *a: self._local(kit, *a), None, kit.solver),
            Update(critic, lambda *a: self._discriminate(kit, *a), None, kit.solver),
        )
        return (Phase(whole, updates, emits=True),)

    def _local(self, kit: Kit, work: Tree, batch: Batch, context: Context) -> Value:
        view = kit.view(self, work, context)
        head = view.params if self.local_classifier == "client" else view.received
        body = tree.under(view.client, "body")
        out = kit.model.forward({**head, **body}, batch.x, True)
        fit = kit.method.objective.at_home().loss(out, batch, view)
        score = judge(tree.under(view.client, "critic"), out.features)
        fool = losses.fool(score, form=self.r_loss, live=batch.live)
        fresh = {n: v for n, v in out.buffers.items() if n in body}
        total = self.beta * fit + (1 - self.beta) * fool
        return Value(total, fit, tree.prefix(fresh, f"{self.name}/body"))

    def _discriminate(self, kit: Kit, work: Tree, batch: Batch, context: Context) -> Value:
        view = kit.view(self, work, context)
        critic, body = tree.under(view.client, "critic"), tree.under(view.client, "body")
        # Both in training mode and without keeping statistics, else D could tell them by batch-norm alone.
        real = kit.model.forward(view.received, batch.x, True).features.detach()
        made = kit.model.forward({**view.params, **body}, batch.x, True).features.detach()
        total = losses.discriminator(
            judge(critic, real), judge(critic, made), form=self.d_loss, live=batch.live
        )
        return Value(total, total, {})

    def models(self, view: View) -> dict[str, Tree]:
        return {"local": {**view.params, **tree.under(view.client, "body")}}

    def check(self, method: Method) -> None:
        personal = [term.name for term in method.terms if term.personal]
        if personal:
            raise ConfigError(
                "GlobalRegularised personalises a local extractor and uploads the global one, "
                f"and {personal[0]} would personalise the one that is uploaded: keep one of the two."
            )


def _critic(width: int, seed: int) -> Tree:
    generator = torch.Generator().manual_seed(seed)
    bound = width**-0.5

    shapes = ((width, width), (width,), (1, width), (1,))
    drawn = [torch.rand(*shape, generator=generator) for shape in shapes]
    return {name: (2 * value - 1) * bound for name, value in zip(CRITIC, drawn, strict=True)}


def judge(critic: Tree, features: Tensor) -> Tensor:
    """The discriminator's logit that features come from the global extractor: FC, LeakyReLU(0.2), FC."""
    hidden = F.leaky_relu(F.linear(features, critic["0.weight"], critic["0.bias"]), 0.2)
    return F.linear(hidden, critic["1.weight"], critic["1.bias"]).squeeze(-1)
