"""Batch-norm with the pooling and ReLU that follow it, on the native kernels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedskew.kernels.build import entry, library
from fedskew.kernels.chain import Link, Norm
from fedskew.kernels.native import TYPES
from fedskew.kernels.torch_ops import Kept, Needs, Slopes, Stats, Trace, channels_last

_CHOICES = {torch.float32: torch.int32, torch.float64: torch.int64}


@dataclass(frozen=True)
class FusedNorm:
    """Few passes over the images where torch takes many."""

    link: Link
    norm: Norm
    capability: str | None = None  # of a processor other than this one

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, stats: Stats) -> tuple[Tensor, Kept]:
        """What leaves it; mean and inverse deviation, and which inputs pooling took."""
        assert bias is not None
        mean, inverse = self._moments(x, stats)
        scale = weight * inverse
        shift = bias - mean * scale
        made = x.new_empty(len(x), *self.link.grid((x.shape[2], x.shape[3])), x.shape[1])
        chosen, source = torch.empty_like(made, dtype=_CHOICES[x.dtype]), torch.empty_like(made)
        self._run("norm_forward", x, x, scale, shift, made, chosen, source)
        return made.permute(0, 3, 1, 2), (mean, inverse, chosen, source)

    def backward(self, dy: Tensor, trace: Trace, weight: Tensor, stats: Stats, needs: Needs) -> Slopes:
        """The gradients that are needed."""
        x, (mean, inverse, chosen, source) = trace.taken, trace.kept
        dy = channels_last(dy)
        total, product = torch.empty_like(mean), torch.empty_like(mean)
        self._run("norm_sums", x, dy, trace.made, source, mean, total, product)
        d_weight = product * inverse
        if not needs[0]:
            return None, d_weight, total
        scale, level, tilt = weight * inverse, torch.zeros_like(mean), torch.zeros_like(mean)
        if stats.train:
            tilt = scale * inverse * d_weight / _pixels(x)
            level = scale * total / _pixels(x) - tilt * mean
        dx = torch.empty_like(x)
        self._run("norm_backward", x, dy, trace.made, chosen, x, scale, level, tilt, dx)
        return dx, d_weight, total

    def _moments(self, x: Tensor, stats: Stats) -> tuple[Tensor, Tensor]:
        """Mean and inverse deviation: of the batch in training, else those that are kept."""
        moving = stats.buffers[self.norm.mean], stats.buffers[self.norm.variance]
        if not stats.train:
            return moving[0], (moving[1] + self.norm.eps).rsqrt()
        mean, variance = (torch.empty(x.shape[1], dtype=x.dtype) for _ in range(2))
        self._run("norm_moments", x, x, mean, variance)
        moving[0].lerp_(mean, self.norm.momentum)
        moving[1].lerp_(variance * (_pixels(x) / (_pixels(x) - 1)), self.norm.momentum)
        return mean, (variance + self.norm.eps).rsqrt()

    def _run(self, name: str, x: Tensor, *tensors: Tensor) -> None:
        batch, channels, height, width = x.shape
        sizes = batch, height, width, channels, *self.link.pool, self.link.relu
        types = "i" * len(sizes) + "p" * len(tensors)
        run = entry(library(self.capability), f"{name}_{TYPES[x.dtype]}", types)
        run(*sizes, *(tensor.data_ptr() for tensor in tensors))


def _pixels(x: Tensor) -> int:
    return x.numel() // x.shape[1]
