"""From bytes to normalised numbers."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 1024  # images that fit into a processor's cache


def scaled(images: NDArray[np.uint8], mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """[N, C, ...] bytes as (byte / 255 - mean) / std, channel by channel."""
    axes = (1, -1, *(1 for _ in images.shape[2:]))
    center, spread = (torch.tensor(list(v), dtype=torch.float64).reshape(axes) for v in (mean, std))
    scale, shift = (1 / (255 * spread)).to(torch.float32), (-center / spread).to(torch.float32)
    result = torch.empty(images.shape)
    for k in range(0, len(images), BLOCK):
        torch.mul(torch.from_numpy(images[k : k + BLOCK]), scale, out=result[k : k + BLOCK]).add_(shift)
    return result


def statistics_of_bytes(images: NDArray[np.uint8]) -> tuple[list[float], list[float]]:
    """Mean and deviation of every channel of [N, C, ...] bytes as numbers in [0, 1], from exact counts."""
    value = np.arange(256) / 255
    means, deviations = [], []
    for channel in np.moveaxis(images, 1, 0):
        share = np.bincount(channel.reshape(-1), minlength=256) / channel.size
        mean = float(share @ value)
        means.append(mean)
        deviations.append(float(np.sqrt(share @ (value - mean) ** 2)) or 1.0)
    return means, deviations


def standardised(x: Tensor, train: NDArray[np.int64]) -> Tensor:
    """[N, C, ...] floats, each channel with mean 0 and deviation 1 over the training examples."""
    own = torch.from_numpy(train)
    mean = _channel_means(x, own, torch.zeros(x.shape[1], dtype=torch.float64), power=1)
    std = _channel_means(x, own, mean, power=2).sqrt()
    axes = (1, -1, *(1 for _ in x.shape[2:]))
    std = torch.where(std > 0, std, torch.ones_like(std)).reshape(axes)
    result = torch.empty(x.shape)
    for k in range(0, len(x), BLOCK):
        result[k : k + BLOCK] = (x[k : k + BLOCK] - mean.reshape(axes)) / std
    return result


def _channel_means(x: Tensor, rows: Tensor, center: Tensor, power: int) -> Tensor:
    """The mean of (x - center) ** power over all but the channel axis, in float64, block by block."""
    total = torch.zeros_like(center)
    for k in range(0, len(rows), BLOCK):
        values = x[rows[k : k + BLOCK]].to(torch.float64).transpose(0, 1).flatten(1)
        total += ((values - center[:, None]) ** power).sum(1)
    return total / (x[0, 0].numel() * len(rows))
