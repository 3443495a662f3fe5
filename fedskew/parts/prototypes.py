"""Prototypes: clients share mean features of classes instead of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedskew import losses
from fedskew.part import Term
from fedskew.ranges import NonNegative
from fedskew.tree import Tree
from fedskew.values import Batch, Cohort, Model, Out, Run, View


@dataclass(frozen=True)
class Prototypes(Term):
    """Pulls features to the mean features of their class over all clients (FedProto, Tan et al., 2022).

    Weighted by examples as printed (`uniform`: the authors' code), taken at the end of the round; a class
    nobody returned keeps its prototype.
    """

    weight: NonNegative = 1.0
    average: Literal["samples", "uniform"] = "samples"
    distance: Literal["sum", "mean"] = "sum"  # of the squares over dimensions; "mean": the authors' code
    one_network: ClassVar[bool] = True
    reveals: ClassVar[str] = "mean features and number of examples of each class"

    def broadcast(self, state: Tree) -> Tree:
        return state

    def loss(self, base: Tensor, out: Out, batch: Batch, view: View) -> Tensor:
        if not view.server:  # the first round
            return base
        known, means = view.server["known"], view.server["means"]
        gap = losses.prototype(out.features, batch.y, means, known, distance=self.distance, live=batch.live)
        return base + self.weight * gap

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        counts = view.data.counts.to(run.loss.dtype)
        sums = torch.zeros(view.model.classes, view.model.width, dtype=run.loss.dtype)
        for batch in view.data.everything():
            features = view.model.forward(run.emitted, batch.x, False).features
            belongs = batch.y[:, None] == torch.arange(view.model.classes)
            if batch.live is not None:
                belongs = belongs & batch.live[:, None]
            sums = sums + belongs.to(features.dtype).mT @ features
        return {"means": sums / counts.clamp(min=1)[:, None], "counts": counts}, {}

    def refuses(self, upload: Tree, model: Model) -> str:
        return "a count of examples is negative" if bool((upload["counts"] < 0).any()) else ""

    def absorb(self, state: Tree, extra: Tree, cohort: Cohort) -> Tree:
        weights = (
            extra["counts"] if self.average == "samples" else (extra["counts"] > 0).to(extra["counts"].dtype)
        )
        total = weights.sum(0)
        means = (
            torch.einsum("mc,mcd->cd", weights, extra["means"]) / torch.where(total > 0, total, 1)[:, None]
        )
        known = total > 0
        if state:
            means = torch.where(known[:, None], means, state["means"])
            known = known | state["known"]
        return {"means": means, "known": known}
