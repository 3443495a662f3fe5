"""Train-time augmentation as a function of its draws, so that the caller decides their key."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Draws(NamedTuple):
    """What was drawn for each image of a batch."""

    offsets: Tensor  # [B, 2] first row and column of the crop in the padded image, 0 .. 2 * padding
    flips: Tensor  # [B] whether the crop is mirrored


def draw(generator: np.random.Generator, count: int, padding: int = 4) -> Draws:
    """Uniform offsets and fair coins for `count` images."""
    offsets = generator.integers(2 * padding + 1, size=(count, 2))
    return Draws(torch.from_numpy(offsets), torch.from_numpy(generator.integers(2, size=count) == 1))


def crop_flip(x: Tensor, draws: Draws, padding: int = 4, fill: float | Tensor | None = None) -> Tensor:
    """Images [B, C, H, W] padded, cropped to their size at the offsets and mirrored where drawn.

    `fill` is the value of the padding, for all channels or [C]; default zero, which is not black in normalised images.
    """
    height, width = x.shape[-2:]
    rows = torch.arange(height, device=x.device) + draws.offsets[:, :1] - padding
    columns = torch.arange(width, device=x.device) + draws.offsets[:, 1:] - padding
    columns = torch.where(draws.flips[:, None], columns.flip(-1), columns)
    inside = _inside(rows, height)[:, None, :, None] & _inside(columns, width)[:, None, None, :]
    down = rows.clamp(0, height - 1)[:, None, :, None].expand(x.shape)
    across = columns.clamp(0, width - 1)[:, None, None, :].expand(x.shape)
    edge = torch.as_tensor(0.0 if fill is None else fill, dtype=x.dtype, device=x.device).reshape(-1, 1, 1)
    return torch.where(inside, x.gather(-2, down).gather(-1, across), edge)


def _inside(positions: Tensor, size: int) -> Tensor:
    return (positions >= 0) & (positions < size)
