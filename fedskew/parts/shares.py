"""Shares: which entries of the network are averaged; the rest stays with the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from fedskew import tree
from fedskew.errors import ConfigError
from fedskew.part import Section, Share
from fedskew.ranges import Count
from fedskew.tree import Tree
from fedskew.values import Client, Model, Reply, Run, View

if TYPE_CHECKING:
    from fedskew.method import Method


@dataclass(frozen=True)
class Everything(Share):
    """The whole network; statistics of batch-norm stay at home with `buffers = "local"`."""

    buffers: Literal["global", "local"] = "global"

    def names(self, model: Model) -> tuple[str, ...]:
        return model.names if self.buffers == "global" else model.trainable


@dataclass(frozen=True)
class Nothing(Share):
    """No averaging at all."""

    gives: ClassVar[tuple[Section, ...]] = ()
    sends: ClassVar[str] = ""

    def names(self, model: Model) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Body(Share):
    """All but the head (FedPer, Arivazhagan et al., 2019; FedRep, Collins et al., 2021)."""

    gives: ClassVar[tuple[Section, ...]] = ("anything", "body")
    sends: ClassVar[str] = "parameters of the body"

    def names(self, model: Model) -> tuple[str, ...]:
        return model.body


@dataclass(frozen=True)
class Top(Share):
    """The head, or the last `layers` layers that have parameters (LG-FedAvg, Liang et al., 2020).

    From scratch: the authors' code starts from a model that FedAvg has trained.
    """

    layers: Count | None = None
    gives: ClassVar[tuple[Section, ...]] = ("anything", "head")
    sends: ClassVar[str] = "parameters of the last layers"

    def names(self, model: Model) -> tuple[str, ...]:
        if self.layers is None:
            return model.head
        if self.layers > len(model.layers):
            raise ConfigError(f"Top.layers = {self.layers}: the network has {len(model.layers)} layers.")
        return tuple(name for layer in model.layers[-self.layers :] for name in layer)


@dataclass(frozen=True)
class OwnRows(Share):
    """Of a one-vs-all network, the components of the classes the client holds (FedOVA Step 2).

    `send` says what is downloaded: `all` components as Algorithm 2, or only the client's `own`.
    A client with one label trains nothing (`skip`), or its one component on positives only.
    """

    send: Literal["all", "own"] = "all"
    single_label: Literal["skip", "positive_only"] = "skip"
    reveals: ClassVar[str] = "which classes it holds"
    sends: ClassVar[str] = "parameters of its classes' networks"
    follows_server: ClassVar[bool] = True

    def names(self, model: Model) -> tuple[str, ...]:
        return model.names

    def take(self, shared: Tree, data: Client) -> Tree:
        return tree.apply(lambda rows: rows[data.classes], shared)

    def rows(self, data: Client) -> Sequence[Client]:
        padded = data.owned is not None  # for a block of clients, whose rows are trained together
        return (data,) if padded else [data._replace(classes=label[None]) for label in data.classes]

    def put(self, shared: Tree, trained: Tree, data: Client) -> Tree:
        # A client trained in a padded block has kept more rows than it has classes.
        own = self.trained(data)
        return tree.apply(
            lambda all, rows: all.index_copy(0, data.classes[own], rows[: len(own)][own]), shared, trained
        )

    def hold(self, new: Tree, old: Tree, data: Client) -> Tree:
        if data.owned is None and (len(data.classes) > 1 or self.single_label != "skip"):
            return new
        rows = self.trained(data)
        return tree.apply(lambda a, b: torch.where(_along(rows, a), a, b), new, old)

    def trained(self, data: Client) -> Tensor:
        """Which of the client's rows [L] are trained."""
        owned = _owned(data)
        return owned & (owned.sum() > 1) if self.single_label == "skip" else owned

    def bytes_down(self, shared: Tree, data: Client) -> int:
        total = len(next(iter(shared.values())))
        return (
            tree.nbytes(shared)
            if self.send == "all"
            else tree.nbytes(shared) // total * int(_owned(data).sum())
        )

    def bytes_up(self, replies: Reply) -> int:
        rows = replies.extra[self.name]["rows"]
        return tree.nbytes(replies.shared) // rows.numel() * int(rows.sum())

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        return {"classes": view.data.classes, "rows": self.trained(view.data)}, {}

    def refuses(self, upload: Tree, model: Model) -> str:
        known = bool(((upload["classes"] >= 0) & (upload["classes"] < model.classes)).all())
        trained = upload["classes"][upload["rows"]].tolist()  # padding repeats a class that is not trained
        return "" if known and len(set(trained)) == len(trained) else f"it names the classes {trained}"

    def check(self, method: Method) -> None:
        if method.network.name != "OneVsAll":
            raise ConfigError(
                f"OwnRows sends the components of a client's classes, and the network {method.network.name} "
                "has none: use the network OneVsAll (FedOVA)."
            )


def _owned(data: Client) -> Tensor:
    return torch.ones_like(data.classes, dtype=torch.bool) if data.owned is None else data.owned


def _along(rows: Tensor, value: Tensor) -> Tensor:
    return rows.reshape(-1, *([1] * (value.ndim - 1)))
