"""Objectives: what a client minimises, as settings around the formulas of `fedskew.losses`."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedskew import losses
from fedskew.part import Objective
from fedskew.values import Batch, Out, View


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Softmax cross-entropy, the objective of FedAvg (McMahan et al., 2017)."""

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        return losses.cross_entropy(out.logits, batch.y, live=batch.live)


@dataclass(frozen=True)
class RestrictedSoftmax(Objective):
    """Logits of classes the client does not hold are scaled by alpha (FedRS; MAP Eq. 8)."""

    alpha: float = 0.5
    mode: Literal["hard", "soft"] = "hard"

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        return losses.restricted_softmax(
            out.logits,
            batch.y,
            view.data.counts,
            alpha=self.alpha,
            mode=self.mode,
            live=batch.live,
            validate=False,
        )


@dataclass(frozen=True)
class OwnComponents(Objective):
    """Binary cross-entropy of each component the client trains (FedOVA §III, Step 2)."""

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        data = view.data
        return losses.one_vs_all(out.logits, batch.y, data.classes, owned=data.owned, live=batch.live)
