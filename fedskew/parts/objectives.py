"""Objectives: what a client minimises, as settings around the formulas of `fedskew.losses`."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedskew import losses
from fedskew.errors import ConfigError
from fedskew.part import Objective
from fedskew.ranges import Fraction, NonNegative, Positive, enforce
from fedskew.values import Batch, Model, Out, View

Threshold = float | tuple[float, ...] | tuple[tuple[float, ...], ...]  # for all, [C], or [K][C] by client


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Softmax cross-entropy, the objective of FedAvg (McMahan et al., 2017)."""

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        return losses.cross_entropy(out.logits, batch.y, live=batch.live)


@dataclass(frozen=True)
class OneVsAllBinary(Objective):
    """A yes-or-no question per class, without the pairs that are easy already (FedABC, Wang et al., 2023).

    Which classes a client holds is known from all its data, not from the batch.
    """

    mp: Threshold = 0.75
    mn: Threshold = 0.25
    mnn: Threshold = 0.30
    sigma: NonNegative = 2.0
    drop: bool = True
    detach_focal: bool = False

    def __post_init__(self) -> None:
        enforce(self)
        for name, value in (("mp", self.mp), ("mn", self.mn), ("mnn", self.mnn)):
            try:
                table = torch.as_tensor(value)
            except ValueError:
                raise ConfigError(
                    f"OneVsAllBinary.{name}: one threshold for all, one a class, or as many for each client."
                ) from None
            inside = (table >= 0) & (table <= 1)
            if table.ndim > 2 or not table.numel() or not bool(inside.all()):
                raise ConfigError(f"OneVsAllBinary.{name} = {value}: thresholds are probabilities in [0, 1].")

    def fits(self, model: Model, clients: int) -> None:
        for name, value in (("mp", self.mp), ("mn", self.mn), ("mnn", self.mnn)):
            shape = torch.as_tensor(value).shape
            if shape and (shape[-1] not in (1, model.classes) or (len(shape) == 2 and shape[0] < clients)):
                raise ConfigError(
                    f"OneVsAllBinary.{name} has the shape {list(shape)}: this is a federation of {clients} clients "
                    f"and {model.classes} classes. Give one threshold for all, one a class, or a row a client."
                )

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        return losses.fedabc(
            out.logits,
            batch.y,
            view.data.counts,
            mp=_own(self.mp, view),
            mn=_own(self.mn, view),
            mnn=_own(self.mnn, view),
            sigma=self.sigma,
            drop=self.drop,
            detach_focal=self.detach_focal,
            live=batch.live,
            validate=False,
        )


def _own(threshold: Threshold, view: View) -> Tensor:
    # Not at once on the device: torch.func refuses that, since torch.tensor then works in place.
    table = torch.tensor(threshold, dtype=torch.float64, device="cpu").to(view.data.id.device)
    return table[view.data.id] if table.ndim == 2 else table


@dataclass(frozen=True)
class CalibratedSoftmax(Objective):
    """Softmax over the client's classes with larger margins for rarer ones (FedLC, Zhang et al., 2022).

    The sum includes the label; printed without it (`denominator = "others"`), the loss has no lower bound.
    """

    tau: NonNegative = 1.0
    margin: Literal["quarter", "log_prior"] = "quarter"
    denominator: Literal["all", "others"] = "all"
    missing: Literal["mask", "clip"] = "mask"
    eps: Positive = 1e-8

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        return losses.fedlc(
            out.logits,
            batch.y,
            view.data.counts,
            tau=self.tau,
            margin=self.margin,
            denominator=self.denominator,
            missing=self.missing,
            eps=self.eps,
            live=batch.live,
            validate=False,
        )

    def at_home(self) -> Objective:
        return CrossEntropy()


@dataclass(frozen=True)
class BalancedSoftmax(Objective):
    """Softmax with the log of the class counts added (generic head of FedRoD, Chen and Chao, 2022)."""

    gamma: NonNegative = 1.0

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        counts = view.data.counts
        return losses.balanced_softmax(
            out.logits, batch.y, counts, gamma=self.gamma, live=batch.live, validate=False
        )

    def at_home(self) -> Objective:
        return CrossEntropy()


@dataclass(frozen=True)
class RestrictedSoftmax(Objective):
    """Logits of classes the client does not hold are scaled by alpha (FedRS, Li and Zhan, 2021; MAP Eq. 8).

    A bias is scaled with the rest of its logit.
    """

    alpha: Fraction = 0.5
    mode: Literal["hard", "soft"] = "hard"

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        counts, alpha, mode = view.data.counts, self.alpha, self.mode
        return losses.restricted_softmax(
            out.logits, batch.y, counts, alpha=alpha, mode=mode, live=batch.live, validate=False
        )

    def at_home(self) -> Objective:
        return CrossEntropy()


@dataclass(frozen=True)
class OwnComponents(Objective):
    """Binary cross-entropy of each component the client trains (FedOVA, Zhu et al., 2021, Step 2)."""

    def loss(self, out: Out, batch: Batch, view: View) -> Tensor:
        data = view.data
        return losses.one_vs_all(out.logits, batch.y, data.classes, owned=data.owned, live=batch.live)
