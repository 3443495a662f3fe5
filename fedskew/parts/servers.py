"""Servers: how the server moves from its model to the combined one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from fedskew import losses, tree
from fedskew.errors import ConfigError
from fedskew.part import Section, Server
from fedskew.ranges import Decay, Natural, NonNegative, Positive
from fedskew.tree import Tree
from fedskew.values import Model

if TYPE_CHECKING:
    from fedskew.method import Method


@dataclass(frozen=True)
class Replace(Server):
    """The combined model becomes the server's."""

    def update(self, old: Tree, combined: Tree, state: Tree, model: Model) -> tuple[Tree, Tree]:
        return combined, state


@dataclass(frozen=True)
class Mix(Server):
    """Part of the way to the combined model (pFedMe, Dinh et al., 2020)."""

    beta: NonNegative = 1.0
    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def update(self, old: Tree, combined: Tree, state: Tree, model: Model) -> tuple[Tree, Tree]:
        return tree.apply(lambda x, y: (1 - self.beta) * x + self.beta * y, old, combined), state

    def check(self, method: Method) -> None:
        _moves_all(self, method)


@dataclass(frozen=True)
class ServerMomentum(Server):
    """Momentum over rounds (FedAvgM, Hsu et al., 2019)."""

    beta: Decay = 0.9
    lr: Positive = 1.0
    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def server_state(self, shared: Tree, population: int) -> Tree:
        return tree.zeros(shared)

    def update(self, old: Tree, combined: Tree, state: Tree, model: Model) -> tuple[Tree, Tree]:
        speed = {n: self.beta * v + (combined[n] - old[n]) for n, v in state.items()}
        # By values: without momentum and at rate 1 the combined model comes out bit for bit.
        past = tree.scale(state, self.lr * self.beta)
        target = tree.apply(lambda x, y: (1 - self.lr) * x + self.lr * y, old, combined)
        return tree.add(target, past), speed

    def check(self, method: Method) -> None:
        _moves_all(self, method)


@dataclass(frozen=True)
class AdaptiveServer(Server):
    """Adam, Yogi or Adagrad on the mean change of a round (FedOpt, Reddi et al., 2021).

    Without bias correction.
    """

    kind: Literal["adam", "yogi", "adagrad"] = "adam"
    lr: Positive = 0.03
    b1: Decay = 0.9
    b2: Decay = 0.99
    tau: Positive = 1e-3
    needs: ClassVar[tuple[Section, ...]] = ("anything",)

    def server_state(self, shared: Tree, population: int) -> Tree:
        return {**tree.prefix(tree.zeros(shared), "m"), **tree.prefix(tree.zeros(shared), "v")}

    def update(self, old: Tree, combined: Tree, state: Tree, model: Model) -> tuple[Tree, Tree]:
        change = tree.subtract(combined, old)
        m = tree.apply(lambda m, d: self.b1 * m + (1 - self.b1) * d, tree.under(state, "m"), change)
        v = tree.apply(self._second, tree.under(state, "v"), change)
        new = tree.apply(lambda x, m, v: x + self.lr * m / (v.sqrt() + self.tau), old, m, v)
        return new, {**tree.prefix(m, "m"), **tree.prefix(v, "v")}

    def _second(self, v: Tensor, change: Tensor) -> Tensor:
        square = change.square()
        if self.kind == "adam":
            return self.b2 * v + (1 - self.b2) * square
        if self.kind == "yogi":
            return v - (1 - self.b2) * square * torch.sign(v - square)
        return v + square

    def check(self, method: Method) -> None:
        _moves_all(self, method)


@dataclass(frozen=True)
class SpreadHead(Server):
    """After averaging, a few steps push the rows of the head apart (FedAwS, Yu et al., 2020).

    Clients train with softmax as usual; margin, rate and steps are the first set of the MAP authors' code.
    """

    margin: NonNegative = 0.9
    lr: Positive = 1.0
    momentum: Decay = 0.9
    steps: Natural = 20
    needs: ClassVar[tuple[Section, ...]] = ("head",)

    def update(self, old: Tree, combined: Tree, state: Tree, model: Model) -> tuple[Tree, Tree]:
        name = model.proxies
        rows = combined[name]
        speed = torch.zeros_like(rows)
        for _ in range(self.steps):
            slope = torch.func.grad(lambda w: losses.spread(w, margin=self.margin))(rows)
            speed = self.momentum * speed + slope
            rows = rows - self.lr * speed
        return {**combined, name: rows}, state

    def check(self, method: Method) -> None:
        _moves_all(self, method)


def _moves_all(server: Server, method: Method) -> None:
    if method.network.name == "OneVsAll":
        raise ConfigError(
            f"{server.name} would also move components that nobody trained in a round, and with the network "
            "OneVsAll (FedOVA) these stay as they are: keep the server Replace."
        )
