"""Losses of yes-or-no answers: FedABC, FedOVA and the two players of GRP-FED."""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from fedskew.losses.batch import (
    Numbers,
    by_class,
    check_choice,
    check_labels,
    check_shape,
    indices,
    is_class,
    live_mean,
)

Head = Literal["sigmoid", "softmax2"]
Discrimination = Literal["bce", "printed"]
Fooling = Literal["printed", "nonsaturating"]


def fedabc(
    logits: Tensor,
    labels: Numbers,
    counts: Numbers,
    *,
    mp: float | Tensor = 0.75,
    mn: float | Tensor = 0.25,
    mnn: float | Tensor = 0.30,
    sigma: float = 2.0,
    drop: bool = True,
    detach_focal: bool = False,
    live: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """One-vs-all focal loss without the easy pairs, summed over classes (FedABC, Wang et al., 2023, Eq. 5-6).

    Thresholds are numbers or [C]; `sigma=0, drop=False` is the plain binary cross-entropy of Eq. 3.
    """
    labels = indices(labels, logits)
    counts = by_class(counts, logits)
    if validate:
        check_labels(labels, counts, live)
    positive = is_class(labels, logits.shape[-1])
    towards_truth = torch.where(positive, logits, -logits)
    loss = -F.logsigmoid(towards_truth)
    if sigma != 0:
        focal = (sigma * F.logsigmoid(-towards_truth)).exp()
        loss = loss * (focal.detach() if detach_focal else focal)
    if drop:
        loss = loss.masked_fill(_easy(logits.detach(), positive, counts, mp, mn, mnn), 0)
    return live_mean(loss.sum(-1), live)


def _easy(
    logits: Tensor,
    positive: Tensor,
    counts: Tensor,
    mp: float | Tensor,
    mn: float | Tensor,
    mnn: float | Tensor,
) -> Tensor:
    # Says what is dropped, not what is kept: a NaN compares false, is not dropped, and shows in the loss.
    q = logits.sigmoid()
    high, low, low_missing = (torch.as_tensor(m, dtype=q.dtype, device=q.device) for m in (mp, mn, mnn))
    for name, threshold in (("mp", high), ("mn", low), ("mnn", low_missing)):
        if threshold.numel() > 1:
            check_shape(name, threshold, q.shape[-1:])
    return torch.where(positive, q >= high, q <= torch.where(counts > 0, low, low_missing))


def binary_cross_entropy(logits: Tensor, targets: Tensor, *, live: Tensor | None = None) -> Tensor:
    """Mean over live samples of the binary cross-entropy of [B] or [B,1] logits with targets in [0, 1]."""
    logits, targets = _flat(logits), _flat(targets)
    check_shape("targets", targets, logits.shape)
    return live_mean(_binary(logits, targets), live)


def one_vs_all(
    logits: Tensor,
    labels: Numbers,
    classes: Tensor,
    *,
    owned: Tensor | None = None,
    head: Head = "sigmoid",
    live: Tensor | None = None,
) -> Tensor:
    """Mean binary cross-entropy of each component, summed over the owned ones (FedOVA, Zhu et al., 2021).

    Logits are [B,L], or [B,L,2] = (no, yes) for head "softmax2"; component l answers for class `classes[l]`.
    """
    check_choice("head", head, get_args(Head))
    score = logits[..., 1] - logits[..., 0] if head == "softmax2" else logits
    check_shape("classes", classes, score.shape[-1:])
    loss = _binary(score, indices(labels, score)[:, None] == classes)
    if owned is not None:
        loss = torch.where(owned.bool(), loss, 0)
    return live_mean(loss.sum(-1), live)


def discriminator(
    global_logits: Tensor,
    local_logits: Tensor,
    *,
    form: Discrimination = "bce",
    live: Tensor | None = None,
) -> Tensor:
    """What the discriminator minimises, so that global features are true (GRP-FED, Chou et al., 2021).

    "printed" is log(1 - D(global)) + log D(local), unbounded below; "bce" pushes the same way and is bounded.
    """
    check_choice("form of the discriminator's loss", form, get_args(Discrimination))
    global_logits, local_logits = _flat(global_logits), _flat(local_logits)
    check_shape("local_logits", local_logits, global_logits.shape)
    if form == "printed":
        return live_mean(F.logsigmoid(-global_logits) + F.logsigmoid(local_logits), live)
    return live_mean(-F.logsigmoid(global_logits) - F.logsigmoid(-local_logits), live)


def fool(local_logits: Tensor, *, form: Fooling = "printed", live: Tensor | None = None) -> Tensor:
    """What GRP-FED's local extractor minimises to pass for global: log(1 - D), or -log D (not saturating)."""
    check_choice("form of the fooling loss", form, get_args(Fooling))
    local_logits = _flat(local_logits)
    return live_mean(F.logsigmoid(-local_logits) if form == "printed" else -F.logsigmoid(local_logits), live)


def _flat(answers: Tensor) -> Tensor:
    """[B] of [B] or [B,1], which would meet [B] as [B,B]."""
    flat = answers.squeeze(-1) if answers.ndim == 2 else answers
    if flat.ndim != 1:
        raise ValueError(f"one answer a sample has the shape [B] or [B,1], not {list(answers.shape)}.")
    return flat


def _binary(logits: Tensor, targets: Tensor) -> Tensor:
    # Not softplus(z) - t z: for a confident right answer that is a difference of two large numbers.
    yes = targets.to(logits.dtype)
    return -yes * F.logsigmoid(logits) - (1 - yes) * F.logsigmoid(-logits)
