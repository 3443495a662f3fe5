"""What the losses of a padded batch share: the mean over its live samples, and checks with a remedy."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from fedskew.errors import ConfigError, unknown

Numbers = Tensor | NDArray[Any] | Sequence[float]


def live_mean(values: Tensor, live: Tensor | None) -> Tensor:
    """Mean of [B] values over the live samples; 0 where none is live."""
    if live is None:
        return values.sum() / max(values.shape[0], 1)
    real = live.bool()
    return torch.where(real, values, 0).sum() / real.sum().clamp(min=1)


def indices(labels: Numbers, rows: Tensor) -> Tensor:
    """Labels of any whole type as an index; ValueError unless there is one for each of the rows."""
    labels = torch.as_tensor(labels, device=rows.device)
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(f"labels are {labels.dtype}: give the numbers of the classes as integers.")
    check_shape("labels", labels, rows.shape[:1])
    return labels.long()


def by_class(counts: Numbers, logits: Tensor) -> Tensor:
    """A client's examples by class; ValueError unless there is a number for each class of the logits."""
    counts = torch.as_tensor(counts, device=logits.device)
    check_shape("counts", counts, logits.shape[-1:])
    return counts


def live_labels(labels: Tensor, live: Tensor | None) -> Tensor:
    """Labels that are safe as an index: those of padding, which may be anything, become 0."""
    return labels if live is None else torch.where(live.bool(), labels, 0)


def at_label(scores: Tensor, labels: Tensor, live: Tensor | None) -> Tensor:
    """The [B] entries of [B,C] scores at each sample's label."""
    return scores.gather(-1, live_labels(labels, live)[:, None]).squeeze(-1)


def is_class(labels: Tensor, classes: int) -> Tensor:
    """[B,C] truth of `label == class`; one_hot would not work under vmap."""
    return labels[:, None] == torch.arange(classes, device=labels.device)


def check_labels(labels: Tensor, counts: Tensor, live: Tensor | None) -> None:
    """Raises ValueError where a live sample has no class, or one that the client's counts call missing."""
    real = labels if live is None else labels[live.bool()]
    classes = counts.numel()
    outside = real[(real < 0) | (real >= classes)]
    if outside.numel():
        raise ValueError(
            f"label {int(outside[0])} is none of the {classes} classes that counts has an entry for: "
            "labels must lie in 0..C-1; mark padding as not live."
        )
    missing = real[counts[real] <= 0]
    if missing.numel():
        raise ValueError(
            f"a sample has label {int(missing[0])} but counts says the client has no sample of that class: "
            "pass the counts of the client's own training data."
        )


def check_shape(what: str, given: Tensor, shape: torch.Size) -> None:
    """Raises ValueError where broadcasting would make something of a tensor that does not fit."""
    if given.shape != shape:
        raise ValueError(f"{what} has the shape {list(given.shape)}: should have {list(shape)}.")


def check_choice(what: str, name: str, choices: tuple[str, ...]) -> None:
    """Raises ConfigError unless the name is one of the choices."""
    if name not in choices:
        raise ConfigError(unknown(what, name, choices))
