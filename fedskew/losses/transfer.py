"""Losses that pull a model towards another model, towards prototypes, or its class rows apart."""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from fedskew.losses.batch import check_choice, check_shape, indices, live_labels, live_mean

Distillation = Literal["hinton", "no_T2", "author"]
Distance = Literal["sum", "mean"]


def distillation(
    student: Tensor,
    teacher: Tensor,
    *,
    temperature: float = 4.0,
    form: Distillation = "hinton",
    live: Tensor | None = None,
) -> Tensor:
    """T^2 KL(teacher || student) at temperature T, the teacher constant (FedPHP, Li et al., 2021).

    "no_T2" leaves T^2 out; "author" is the released code: cross-entropy with the student at temperature 1.
    """
    check_choice("form of distillation", form, get_args(Distillation))
    check_shape("teacher", teacher, student.shape)
    target = F.log_softmax(teacher.detach() / temperature, -1)
    if form == "author":
        return live_mean(-(target.exp() * F.log_softmax(student, -1)).sum(-1), live)
    gap = target - F.log_softmax(student / temperature, -1)
    divergence = live_mean((target.exp() * gap).sum(-1), live)
    return divergence if form == "no_T2" else temperature**2 * divergence


def mmd(
    features: Tensor,
    teacher_features: Tensor,
    *,
    kernels: int = 5,
    live: Tensor | None = None,
) -> Tensor:
    """Biased squared maximum mean discrepancy under a sum of Gaussian kernels (FedPHP, Li et al., 2021).

    The middle width is the mean squared distance of all live points, its neighbours half and twice that;
    widths and teacher are constant.
    """
    check_shape("teacher_features", teacher_features, features.shape)
    mask = torch.ones_like(features[:, 0]) if live is None else live.bool().to(features.dtype)
    both = torch.cat([mask, mask])
    sign = torch.cat([mask, -mask])
    distances = _squared_distances(torch.cat([features, teacher_features.detach()]), both)
    count = mask.sum()
    points = 2 * count
    width = (both @ distances.detach() @ both) / (points * points - points).clamp(min=1) + 1e-8
    narrowest = width / 2 ** (kernels // 2)
    similarity = torch.stack([(-distances / (narrowest * 2**j)).exp() for j in range(kernels)]).sum(0)
    return (sign @ similarity @ sign) / (count * count).clamp(min=1)


def _squared_distances(points: Tensor, weight: Tensor) -> Tensor:
    # By products, since all differences would take n^2 d numbers. Products lose digits far from the origin,
    # so the points are centred; the second pass removes what rounding left, so that equal points coincide.
    for _ in range(2):
        points = points - ((weight @ points) / weight.sum().clamp(min=1)).detach()
    products = points @ points.mT
    squares = products.diagonal()
    return (squares[:, None] + squares - 2 * products).clamp(min=0)


def contrastive(
    features: Tensor,
    received_features: Tensor,
    previous_features: Tensor,
    *,
    temperature: float = 0.5,
    live: Tensor | None = None,
) -> Tensor:
    """Pulls features to the received model's, off the previous one's, by cosine (MOON, Li et al., 2021)."""
    check_shape("received_features", received_features, features.shape)
    check_shape("previous_features", previous_features, features.shape)
    here = _unit(features)
    nearer = (here * (_unit(received_features.detach()) - _unit(previous_features.detach()))).sum(-1)
    return live_mean(-F.logsigmoid(nearer / temperature), live)


def prototype(
    features: Tensor,
    labels: Tensor,
    prototypes: Tensor,
    known: Tensor,
    *,
    distance: Distance = "sum",
    live: Tensor | None = None,
) -> Tensor:
    """Squared distance of features from the prototype of their class (FedProto, Tan et al., 2022).

    The public code takes the "mean" over feature dimensions. The mean over samples is over live ones whose
    class has a prototype; the public code counts the others too, as zeros.
    """
    check_choice("distance from prototypes", distance, get_args(Distance))
    index = live_labels(indices(labels, features), live)
    used = known.bool().index_select(0, index)  # which refuses labels below 0
    used = used if live is None else used & live.bool()
    # A class without prototype may hold NaN; a sample compared with itself has neither value nor gradient.
    target = torch.where(used[:, None], prototypes[index], features).detach()
    squares = (features - target).square()
    return live_mean(squares.sum(-1) if distance == "sum" else squares.mean(-1), used)


def spread(head_weight: Tensor, *, margin: float) -> Tensor:
    """Squared hinge on the distance (1 - cos) / 2 of rows nearer than the margin (FedAwS, Yu et al., 2020).

    Summed over ordered pairs of different classes and divided by C^2, the gradient scale of the public code.
    """
    rows = _unit(head_weight)
    short = F.relu(margin - 0.5 * (1 - rows @ rows.mT))
    others = 1 - torch.eye(rows.shape[0], dtype=rows.dtype, device=rows.device)
    return (short.square() * others).mean()


def _unit(vectors: Tensor) -> Tensor:
    # A zero vector stays zero, with a gradient of ordinary size instead of one divided by a tiny norm.
    # Its direction does not depend on its length: brought to about 1 first, no square is 0 or infinite.
    largest = vectors.detach().abs().amax(-1, keepdim=True)
    near = vectors / torch.where(largest > 0, largest, 1)
    squared = near.square().sum(-1, keepdim=True)
    return near * torch.where(squared > 0, squared, 1).rsqrt()
