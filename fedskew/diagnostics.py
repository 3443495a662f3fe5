"""What label skew does to a model: the quantities FedLC, FedOVA and MAP reason about, as pure functions.

Class pairs are [C,C] matrices; an entry that is not defined (no sample of a class, the diagonal) is NaN.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from fedskew.losses.batch import at_label, check_choice, indices, is_class
from fedskew.losses.softmax import fedlc_margins

Weighting = Literal["derived", "printed"]
Reduction = Literal["min", "mean"]


def deviation_bound(probabilities: Tensor, features: Tensor, labels: Tensor) -> Tensor:
    """D_jr, the n_j / n_r above which class j turns the update of r's row against r (FedLC, Definition 3)."""
    p = _class_means(probabilities, labels, probabilities.shape[-1])
    wrong = p.masked_fill(_diagonal(p), 0).sum(-1)
    return _bound(wrong, p, features, labels)


def calibrated_deviation_bound(
    logits: Tensor,
    features: Tensor,
    labels: Tensor,
    counts: Tensor,
    *,
    tau: float = 1.0,
    weighting: Weighting = "derived",
) -> Tensor:
    """D_jr under FedLC's loss (Theorem 3): Definition 3 with the probabilities of calibrated logits.

    In uncalibrated terms that puts a weight exp(Delta_ry) on class y ("derived"). The theorem prints Delta_ry
    ("printed"), which vanishes at tau = 0 instead of giving the plain bound; missing classes are left out.
    """
    check_choice("weighting", weighting, get_args(Weighting))
    margins = fedlc_margins(counts.to(logits.dtype), tau)
    calibrated = logits - margins
    if weighting == "derived":
        return deviation_bound(calibrated.softmax(-1), features, labels)
    scaled = (logits - torch.logsumexp(calibrated, -1, keepdim=True)).exp()
    p = _class_means(scaled, labels, logits.shape[-1])
    weighted = (margins[:, None] - margins) * p
    return _bound(weighted.masked_fill((counts == 0) | _diagonal(p), 0).sum(-1), p, features, labels)


def deviation_share(counts: Tensor, bound: Tensor, *, ratio: float = 1.0) -> Tensor:
    """Share of pairs (majority j, minority r) that deviate: n_j / n_r > D_jr > 0 (FedLC, Theorem 1).

    The paper's n_j >> n_r > 0 is read as n_j > ratio * n_r > 0; NaN where no pair has a bound.
    """
    n = counts.to(bound.dtype)
    pairs = (n[:, None] > ratio * n) & (n > 0) & ~bound.isnan()
    deviates = pairs & (bound > 0) & (n[:, None] > bound * n)
    return deviates.sum() / pairs.sum()


def margins(logits: Tensor, labels: Tensor, *, reduction: Reduction = "min") -> Tensor:
    """[C] margins d_y = f_y - max of the others, smallest (or mean) in each class (FedLC, Theorem 2)."""
    check_choice("reduction", reduction, get_args(Reduction))
    labels, classes = indices(labels, logits), logits.shape[-1]
    member = is_class(labels, classes)
    gap = at_label(logits, labels, None) - logits.masked_fill(member, -torch.inf).amax(-1)
    if reduction == "mean":
        return _class_means(gap[:, None], labels, classes).squeeze(-1)
    smallest = torch.where(member, gap[:, None], torch.inf).amin(0)
    return smallest.masked_fill(~member.any(0), torch.nan)


def generalisation_bound(margins: Tensor, counts: Tensor) -> Tensor:
    """[C,C] bounds 1 / (d_y sqrt n_y) + 1 / (d_i sqrt n_i) of the test error (FedLC, Theorem 2).

    A class that is missing, or has a sample on the wrong side (d <= 0), is bounded by nothing: infinity.
    """
    n = counts.to(margins.dtype)
    term = torch.where((margins > 0) & (n > 0), 1 / (margins * n.sqrt()), torch.inf)
    pairs = term[:, None] + term
    return pairs.masked_fill(_diagonal(pairs), torch.nan)


def error_correlation(logits: Tensor, labels: Tensor) -> Tensor:
    """[C,C] Pearson correlation of the components' mistakes, which FedOVA wants low (Zhu et al., 2021).

    A component says yes where its logit is positive; NaN if its answers are all right or all wrong.
    """
    wrong = ((logits > 0) != is_class(labels, logits.shape[-1])).to(logits.dtype)
    centred = wrong - wrong.mean(0)
    covariance = centred.mT @ centred
    scale = covariance.diagonal().sqrt()
    return covariance / (scale[:, None] * scale)


class ProxyGeometry(NamedTuple):
    """Norm of each class's row, and mean distances within and between observed and missing classes."""

    norms: Tensor
    observed_observed: Tensor
    observed_missing: Tensor
    missing_missing: Tensor


def proxy_geometry(head_weight: Tensor, observed: Tensor) -> ProxyGeometry:
    """How the [C,d] rows of a head lie, given which classes training observed (MAP, Fig. 6).

    Sums run over all ordered pairs, a row with itself included, and are divided by |O|^2, |O||M| and |M|^2.
    """
    # Differences, not products: the collapse of missing rows is measured in small distances.
    distance = torch.cdist(head_weight, head_weight, compute_mode="donot_use_mm_for_euclid_dist")
    seen = observed.to(head_weight.dtype)
    unseen = 1 - seen

    def mean_between(a: Tensor, b: Tensor) -> Tensor:
        return (a @ distance @ b) / (a.sum() * b.sum())

    return ProxyGeometry(
        head_weight.norm(dim=-1),
        mean_between(seen, seen),
        mean_between(seen, unseen),
        mean_between(unseen, unseen),
    )


def _bound(wrong: Tensor, p: Tensor, features: Tensor, labels: Tensor) -> Tensor:
    """wrong_r |h_r|^2 / (p_jr h_r . h_j), with p_jr the mean answer r and h_j the mean feature of class j."""
    h = _class_means(features, labels, p.shape[-1])
    products = h @ h.mT
    bound = wrong * products.diagonal() / (p * products)
    return bound.masked_fill(_diagonal(p), torch.nan)


def _class_means(values: Tensor, labels: Tensor, classes: int) -> Tensor:
    member = is_class(labels, classes).to(values.dtype)
    return (member.mT @ values) / member.sum(0)[:, None]


def _diagonal(square: Tensor) -> Tensor:
    return torch.eye(square.shape[0], dtype=torch.bool, device=square.device)
