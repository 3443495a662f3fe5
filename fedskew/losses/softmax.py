"""Softmax cross-entropy and what FedLC, FedRS and FedRoD make of it on a client that misses classes."""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from fedskew.losses.batch import (
    Numbers,
    at_label,
    by_class,
    check_choice,
    check_labels,
    indices,
    is_class,
    live_mean,
)

Margin = Literal["quarter", "log_prior"]
Denominator = Literal["all", "others"]
Missing = Literal["mask", "clip"]
Restriction = Literal["hard", "soft"]

_NO_LABEL = torch.iinfo(torch.int64).min  # torch would leave out samples with label -100


def cross_entropy(logits: Tensor, labels: Numbers, *, live: Tensor | None = None) -> Tensor:
    """Mean softmax cross-entropy over the live samples."""
    labels = indices(labels, logits)
    if live is None and len(labels):  # the same in one operation
        return F.cross_entropy(logits, labels, ignore_index=_NO_LABEL)
    return live_mean(-at_label(F.log_softmax(logits, -1), labels, live), live)


def fedlc_margins(
    counts: Numbers,
    tau: float = 1.0,
    margin: Margin = "quarter",
    missing: Missing = "mask",
    eps: float = 1e-8,
) -> Tensor:
    """What is taken off each logit: tau n^(-1/4), or -tau log(n / sum n) (FedLC, Zhang et al., 2022).

    A missing class is removed (infinite margin), or has `eps` samples with missing="clip".
    """
    check_choice("margin", margin, get_args(Margin))
    check_choice("treatment of missing classes", missing, get_args(Missing))
    n = _floating(counts)
    seen = n > 0
    positive = n.clamp(min=eps) if missing == "clip" else torch.where(seen, n, 1)
    if margin == "quarter":
        margins = tau * positive**-0.25
    else:
        margins = -tau * (positive.log() - n.sum(-1, keepdim=True).clamp(min=eps).log())
    return margins.masked_fill(~seen, torch.inf) if missing == "mask" else margins


def fedlc(
    logits: Tensor,
    labels: Numbers,
    counts: Numbers,
    *,
    tau: float = 1.0,
    margin: Margin = "quarter",
    denominator: Denominator = "all",
    missing: Missing = "mask",
    eps: float = 1e-8,
    live: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """Cross-entropy of the logits less their margins, over the client's classes (FedLC, Eq. 7).

    The printed sum leaves the label out ("others", unbounded below); there a label without rival costs 0.
    """
    check_choice("denominator", denominator, get_args(Denominator))
    labels = indices(labels, logits)
    counts = by_class(counts, logits)
    if validate:
        check_labels(labels, counts, live)
    margins = fedlc_margins(counts.to(logits.dtype), tau, margin, missing, eps)
    # The lowest finite number, not -inf: a client with no class at all must give 0, and inf - inf is NaN.
    lowest = torch.finfo(logits.dtype).min
    removed = margins.isinf()
    summed = ~removed if denominator == "all" else ~removed & ~is_class(labels, logits.shape[-1])
    # A margin is small beside a large logit: subtracted from the distance to the top, it keeps its digits.
    top = torch.where(summed, logits, lowest).amax(-1, keepdim=True).detach()
    calibrated = (logits - torch.where(top > lowest, top, 0) - margins).masked_fill(removed, lowest)
    if denominator == "all":
        return cross_entropy(calibrated, labels, live=live)
    rivals = torch.where(summed, calibrated, lowest).logsumexp(-1)
    own = at_label(calibrated, labels, live)
    return live_mean(torch.where(summed.any(-1), rivals - own, 0), live)


def masked_softmax(
    logits: Tensor,
    labels: Numbers,
    counts: Numbers,
    *,
    live: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """Cross-entropy over the classes the client has: FedLC with no margin, its ablation."""
    return fedlc(logits, labels, counts, tau=0.0, live=live, validate=validate)


def balanced_softmax(
    logits: Tensor,
    labels: Numbers,
    counts: Numbers,
    *,
    gamma: float = 1.0,
    live: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """Cross-entropy of z + gamma log n over the client's classes (head of FedRoD, Chen and Chao, 2022)."""
    return fedlc(logits, labels, counts, tau=gamma, margin="log_prior", live=live, validate=validate)


def restriction(counts: Numbers, alpha: float = 0.5, mode: Restriction = "hard") -> Tensor:
    """The factor of each class's logit in FedRS: 1 for a class the client has, alpha for a missing one.

    "soft" is the released code's alpha + (1 - alpha) n / max n.
    """
    check_choice("mode of restriction", mode, get_args(Restriction))
    n = _floating(counts)
    most = n.amax(-1, keepdim=True)
    share = (n > 0).to(n.dtype) if mode == "hard" else n / torch.where(most > 0, most, 1)
    return share + alpha * (1 - share)


def restricted_softmax(
    logits: Tensor,
    labels: Numbers,
    counts: Numbers,
    *,
    alpha: float = 0.5,
    mode: Restriction = "hard",
    live: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """Cross-entropy with the logits of missing classes scaled by alpha (FedRS, Li and Zhan, 2021).

    Training only: prediction uses the logits as they are.
    """
    labels = indices(labels, logits)
    counts = by_class(counts, logits)
    if validate:
        check_labels(labels, counts, live)
    return cross_entropy(logits * restriction(counts.to(logits.dtype), alpha, mode), labels, live=live)


def _floating(counts: Numbers) -> Tensor:
    counts = torch.as_tensor(counts)
    return counts if counts.is_floating_point() else counts.double()
