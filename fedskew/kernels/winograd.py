"""Convolutions of three by three with many channels on the native kernels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedskew.kernels.build import entry, library
from fedskew.kernels.native import TYPES
from fedskew.kernels.torch_ops import Needs, Slopes, TorchConvolution, channels_last


@dataclass(frozen=True)
class Winograd(TorchConvolution):
    """A convolution with a quarter of the multiplications, a few more at the edges."""

    capability: str | None = None  # of a processor other than this one

    def convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution alone."""
        return self._run(x, weight, bias, self.link.padding[0], turned=False)

    def slopes(self, dy: Tensor, x: Tensor, weight: Tensor, needs: Needs) -> Slopes:
        """The gradients of the convolution alone."""
        dy = channels_last(dy)
        return (
            self._run(dy, weight, None, 2 - self.link.padding[0], turned=True) if needs[0] else None,
            self._filter_gradient(x, dy, weight) if needs[1] else None,
            dy.sum((0, 2, 3)) if needs[2] else None,
        )

    def _run(self, x: Tensor, weight: Tensor, bias: Tensor | None, padding: int, turned: bool) -> Tensor:
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
        run(*_sizes(x), len(weight), self.link.padding[0], x.data_ptr(), dy.data_ptr(), made.data_ptr())
        return made


def _sizes(x: Tensor) -> tuple[int, int, int, int]:
    batch, channels, height, width = x.shape
    return batch, height, width, channels
