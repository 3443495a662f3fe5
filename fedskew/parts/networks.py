"""Networks: how the model is built from a factory that takes the number of outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from fedskew import keys, tree
from fedskew.errors import ConfigError
from fedskew.part import Network
from fedskew.tree import Tree
from fedskew.values import Model, Out

if TYPE_CHECKING:
    from fedskew.method import Method


@dataclass(frozen=True)
class Plain(Network):
    """One network with an output for every class."""

    def build(self, factory: Callable[[int], Model], classes: int) -> Model:
        return factory(classes)


@dataclass(frozen=True)
class OneVsAll(Network):
    """One independent binary network per class (FedOVA §III); every entry has a leading class axis.

    With `softmax2` a component has two outputs and answers with their difference, the same function.
    """

    head: Literal["sigmoid", "softmax2"] = "sigmoid"

    def build(self, factory: Callable[[int], Model], classes: int) -> Model:
        binary = factory(1 if self.head == "sigmoid" else 2)

        def init(seed: int) -> Tree:
            return tree.stack([component(binary, seed, label) for label in range(classes)])

        def forward(params: Tree, x: Tensor, train: bool) -> Out:
            # A view where there is one row: the gradient of `unbind` is a copy.
            entries = params.values()
            rows = zip(*([v.squeeze(0)] if len(v) == 1 else v.unbind() for v in entries), strict=True)
            outs = [binary.forward(dict(zip(params, row, strict=True)), x, train) for row in rows]
            logits = torch.stack([self._answer(out.logits) for out in outs], -1)
            features = torch.stack([out.features for out in outs], 1)
            return Out(logits, features, tree.stack([out.buffers for out in outs]))

        return binary._replace(init=init, forward=forward, classes=classes)

    def check(self, method: Method) -> None:
        wanted = {
            "objective": ("OwnComponents",),
            "share": ("OwnRows",),
            "aggregate": ("GroupedMean", "AsArrived"),
        }
        for slot, names in wanted.items():
            name = getattr(method, slot).name
            if name not in names:
                raise ConfigError(
                    f"OneVsAll has a network of its own for every class, and the {slot} {name} is made for "
                    f"one network with an output per class: use {' or '.join(names)} (FedOVA)."
                )
        for part in method.parts:
            if part.one_network:
                raise ConfigError(
                    f"{part.name} deals with one network for all classes, and with OneVsAll (FedOVA) "
                    "a client works on a network for each of its own classes."
                )

    def _answer(self, logits: Tensor) -> Tensor:
        return logits[..., 0] if self.head == "sigmoid" else logits[..., 1] - logits[..., 0]


def component(binary: Model, seed: int, label: int) -> Tree:
    """The initial network of one class: the same whenever the class appears."""
    return binary.init(keys.integer("model", seed, label))
