"""Convolutions of three by three with many channels on the native kernels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fedskew.kernels.build import entry, library
from fedskew.kernels.chain import Link
from fedskew.kernels.native import TYPES
from fedskew.kernels.torch_ops import Needs, Slopes, channels_last

_WHOLE = 16  # channels come in multiples of this: whole vectors on every processor


class Winograd(NamedTuple):
    """A convolution with less than half of the multiplications."""

    padding: int
    capability: str | None = None  # of a processor other than this one

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution."""
        return self._convolve(x, weight, bias, self.padding, turned=False)

    def backward(self, dy: Tensor, x: Tensor, weight: Tensor, needs: Needs) -> Slopes:
        """The gradients that are needed."""
        dy = channels_last(dy)
        return (
            self._convolve(dy, weight, None, 2 - self.padding, turned=True) if needs[0] else None,
            self._filter_gradient(x, dy, weight) if needs[1] else None,
            dy.sum((0, 2, 3)) if needs[2] else None,
        )

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None, padding: int, turned: bool) -> Tensor:
        """The convolution; `turned`, from a gradient of what it makes to one of what it takes."""
        outputs = weight.shape[1] if turned else len(weight)
        grown = 2 * padding - 2
        made = x.new_empty(len(x), x.shape[2] + grown, x.shape[3] + grown, outputs).permute(0, 3, 1, 2)
        run = entry(library(self.capability), f"convolve_{TYPES[x.dtype]}", "iiiiiippipp")
        start = None if bias is None else bias.data_ptr()
        run(*_sizes(x), outputs, padding, x.data_ptr(), weight.data_ptr(), turned, start, made.data_ptr())
        return made

    def _filter_gradient(self, x: Tensor, dy: Tensor, weight: Tensor) -> Tensor:
        made = torch.empty_like(weight)
        run = entry(library(self.capability), f"filter_gradient_{TYPES[x.dtype]}", "iiiiiippp")
        run(*_sizes(x), len(weight), self.padding, x.data_ptr(), dy.data_ptr(), made.data_ptr())
        return made


def winograd(link: Link) -> Winograd | None:
    """The fast convolution of a link, if there is one."""
    whole = link.inputs % _WHOLE == 0 and link.outputs % _WHOLE == 0
    suits = link.kernel == (3, 3) and link.padding in ((0, 0), (1, 1), (2, 2))
    return Winograd(link.padding[0]) if whole and suits else None


def _sizes(x: Tensor) -> tuple[int, int, int, int]:
    batch, channels, height, width = x.shape
    return batch, height, width, channels
