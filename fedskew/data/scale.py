"""From bytes to normalised numbers."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def scaled(images: NDArray[np.uint8], mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """[N, C, ...] bytes as (byte / 255 - mean) / std, channel by channel, in one pass over the floats."""
    axes = (1, -1, *(1 for _ in images.shape[2:]))
    table = (np.arange(256) / 255 - np.reshape(mean, (-1, 1))) / np.reshape(std, (-1, 1))
    lookup = torch.from_numpy(table.astype(np.float32))
    scale = (lookup[:, 255] - lookup[:, 0]).reshape(axes) / 255
    shift = lookup[:, 0].reshape(axes)
    return torch.from_numpy(images).to(torch.float32).mul_(scale).add_(shift)


def statistics_of_bytes(images: NDArray[np.uint8]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of every channel of [N, C, ...] bytes as numbers in [0, 1], from exact counts."""
    value = np.arange(256) / 255
    means, deviations = [], []
    for channel in np.moveaxis(images, 1, 0):
        share = np.bincount(channel.reshape(-1), minlength=256) / channel.size
        mean = float(share @ value)
        means.append(mean)
        deviations.append(float(np.sqrt(share @ (value - mean) ** 2)) or 1.0)
    return means, deviations


def channel_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every channel of [N, C, ...], in float64; a constant channel gets 1."""
    flat = x.to(torch.float64).transpose(0, 1).flatten(1)
    std = flat.std(1, correction=0)
    return flat.mean(1), torch.where(std > 0, std, torch.ones_like(std))


def standardised(x: Tensor, train: NDArray[np.int64]) -> Tensor:
    """[N, C, ...] floats, each channel with mean 0 and deviation 1 over the training examples."""
    mean, std = channel_statistics(x[torch.from_numpy(train)])
    axes = (1, -1, *(1 for _ in x.shape[2:]))
    return ((x.to(torch.float64) - mean.reshape(axes)) / std.reshape(axes)).to(torch.float32)
