"""What is measured: pure functions of logits, predictions and labels, mostly through confusion matrices.

A confusion matrix is [C, C] int64 (rows: truth, columns: prediction); those of many clients stack to
[K, C, C] and add up. What has no test sample is nan, and every mean over clients leaves nan out.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fedskew.errors import ConfigError, DataError, DivergedError, unknown


class Groups(NamedTuple):
    """One value (a mask of classes, an accuracy) for each kind of class a client can have."""

    majority: Tensor
    minority: Tensor
    missing: Tensor


class LocalTest(NamedTuple):
    """Tl of GRP-FED in both readings of its Eq. 6; the first is the one that explains its table."""

    mean_of_harmonics: Tensor
    harmonic_of_means: Tensor


def predict(logits: Tensor) -> Tensor:
    """The class of the largest logit [..., C] -> [...]; the lowest index wins a tie."""
    _refuse_nan(logits)
    classes = logits.shape[-1]
    is_best = logits == logits.amax(-1, keepdim=True)
    # torch.argmax promises no particular index among equals.
    return torch.where(is_best, torch.arange(classes, device=logits.device), classes).amin(-1)


def confusion(predictions: Tensor, labels: Tensor, classes: int, live: Tensor | None = None) -> Tensor:
    """Counts [..., C, C] of (truth, prediction) over the last axis, without samples that are not live."""
    _check_length(predictions.shape[-1:], labels.shape[-1:])
    labels = labels.expand_as(predictions)
    counted = (
        torch.ones_like(labels, dtype=torch.bool) if live is None else live.bool().expand_as(predictions)
    )
    _check_range("label", labels[counted], classes)
    _check_range("prediction", predictions[counted], classes)
    lead = predictions.shape[:-1]
    matrix = torch.arange(lead.numel(), device=predictions.device).reshape(*lead, 1)
    cell = (matrix * classes + labels) * classes + predictions
    counts = torch.bincount(cell[counted], minlength=lead.numel() * classes * classes)
    return counts.reshape(*lead, classes, classes)


def accuracy(cm: Tensor) -> Tensor:
    """Share of correct predictions [..., C, C] -> [...]; nan for an empty test set."""
    return _correct(cm).sum(-1) / cm.sum((-2, -1))


def per_class(cm: Tensor) -> Tensor:
    """Recall of each class [..., C, C] -> [..., C]; nan for a class without test samples."""
    return _correct(cm) / cm.sum(-1)


def macro_f1(cm: Tensor, labels: Literal["all", "present"] = "all") -> Tensor:
    """Mean F1 over all classes, or those in truth or prediction; 0/0 counts 0, an empty test set is nan."""
    if labels not in ("all", "present"):
        raise ConfigError(unknown("label set of macro-F1", labels, ("all", "present")))
    f1 = 2 * _correct(cm) / (cm.sum(-1) + cm.sum(-2))
    if labels == "present":
        return f1.nanmean(-1)
    return torch.where(cm.sum((-2, -1)) > 0, f1.nansum(-1) / cm.shape[-1], math.nan)


def pooled(cms: Tensor) -> Tensor:
    """Correct over size, both summed over clients [K, C, C] (FedABC Eq. 7; Eq. 8 on a balanced test set)."""
    return accuracy(cms.sum(0))


def groups(counts: Tensor) -> Groups:
    """Masks of classes with more than 1/C of a client's training samples [..., C], with less, with none."""
    present = counts > 0
    # n_c / n > 1 / C multiplied out: exact at the border, and defined for a client without samples.
    majority = counts.double() * counts.shape[-1] > counts.sum(-1, keepdim=True)
    return Groups(majority, present & ~majority, ~present)


def group_accuracy(cm: Tensor, counts: Tensor) -> Groups:
    """Accuracy on the test samples of each group of classes; nan where a group has no test sample."""

    def recall(mask: Tensor) -> Tensor:
        return (_correct(cm) * mask).sum(-1) / (cm.sum(-1) * mask).sum(-1)

    return Groups(*(recall(mask) for mask in groups(counts)))


def mean_over_clients(values: Tensor) -> Tensor:
    """Unweighted mean over the last axis, without clients that have no value."""
    return values.nanmean(-1)


def spread(values: Tensor) -> Tensor:
    """Population standard deviation over the last axis, without clients that have no value."""
    return (values - values.nanmean(-1, keepdim=True)).square().nanmean(-1).sqrt()


def worst_share(values: Tensor, share: float = 0.1) -> Tensor:
    """Mean over the ceil(share * K) lowest values of the K clients that have one."""
    if not 0 < share <= 1:
        raise ConfigError(f"share of the worst clients is {share}; it must lie in (0, 1], e.g. 0.1.")
    known = values[~values.isnan()]
    # The slack keeps a product such as 0.07 * 100 = 7.000000000000001 from taking in one client more.
    return known.sort().values[: math.ceil(share * len(known) - 1e-9)].mean()


def harmonic(a: Tensor, b: Tensor) -> Tensor:
    """Harmonic mean, element by element; 0 where both are 0."""
    return torch.where(a + b == 0, 0.0, 2 * a * b / (a + b))


def local_test(tp: Tensor, tr: Tensor) -> LocalTest:
    """Tl from each client's macro-F1 on its own [K] and on the whole test set [K] (GRP-FED Eq. 6).

    A client without a test set of its own, whose Tp is nan, counts in neither.
    """
    tr = tr.masked_fill(tp.isnan(), math.nan)
    return LocalTest(
        mean_over_clients(harmonic(tp, tr)), harmonic(mean_over_clients(tp), mean_over_clients(tr))
    )


def rounds_to_target(values: Sequence[float], target: float, rounds: Sequence[int] = ()) -> int | None:
    """First round whose value reaches the target, else None; rounds count from 1 unless given."""
    numbers = rounds if len(rounds) else range(1, len(values) + 1)
    return next((number for number, value in zip(numbers, values, strict=True) if value >= target), None)


def last(values: Sequence[float]) -> float:
    """The value of the last round; nan if there is none."""
    return values[-1] if len(values) else math.nan


def mean_last(values: Sequence[float], k: int = 10) -> float:
    """Mean over the last k rounds, or over all if there are fewer; rounds without a value are left out."""
    if k < 1:
        raise ConfigError(f"the mean of the last {k} rounds is undefined; k must be at least 1.")
    known = [value for value in values[-k:] if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def ballot(logits: Tensor, how: str = "probability") -> Tensor:
    """What one model's logits [..., C] add to an ensemble: ballots are summed and `predict` reads the sum."""
    if how not in _BALLOTS:
        raise ConfigError(unknown("ensemble", how, _BALLOTS))
    return _BALLOTS[how](logits.double())


def ensemble(logits: Iterable[Tensor], how: str = "probability") -> Tensor:
    """Joint prediction [N] of models that come one at a time (a generator) or stacked [K, N, C]."""
    total: Tensor | None = None
    for one in logits:
        total = ballot(one, how) if total is None else total + ballot(one, how)
    if total is None:
        raise ConfigError("an ensemble of no models cannot predict; evaluate it on at least one client.")
    return predict(total)


def component_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Accuracy [C] of each binary component "is it class c?" (FedOVA Fig. 3); a logit of 0 answers no."""
    _refuse_nan(logits)
    _check_length(logits.shape[:1], labels.shape)
    truth = labels[:, None] == torch.arange(logits.shape[-1], device=logits.device)
    return ((logits > 0) == truth).double().mean(0)


def _vote(logits: Tensor) -> Tensor:
    return (predict(logits)[..., None] == torch.arange(logits.shape[-1], device=logits.device)).double()


_BALLOTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "probability": lambda logits: logits.softmax(-1),
    "log_probability": lambda logits: logits.log_softmax(-1),
    "vote": _vote,
}


def _correct(cm: Tensor) -> Tensor:
    return cm.diagonal(dim1=-2, dim2=-1).double()


def _refuse_nan(logits: Tensor) -> None:
    if logits.isnan().any():
        raise DivergedError(
            f"logits of shape {tuple(logits.shape)} contain nan, so there is no prediction to score: "
            "training diverged. Lower the learning rate or clip gradients."
        )


def _check_length(predictions: torch.Size, labels: torch.Size) -> None:
    if predictions != labels:
        raise DataError(
            f"predictions of shape {list(predictions)} cannot be compared with labels of shape {list(labels)}; "
            "evaluate a model on the same samples the labels belong to."
        )


def _check_range(what: str, values: Tensor, classes: int) -> None:
    if values.numel() and not 0 <= int(values.min()) <= int(values.max()) < classes:
        raise DataError(
            f"{what}s run from {int(values.min())} to {int(values.max())}, but the {classes} classes "
            f"are 0 to {classes - 1}; check the number of classes of the model and of the dataset."
        )
