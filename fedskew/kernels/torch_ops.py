"""Chains on torch's own operations: images with channels last, no bookkeeping of autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fedskew.kernels.chain import Chain, Link, Norm
from fedskew.tree import Tree

_aten = torch.ops.aten

Kept = tuple[Tensor, ...]  # what a backward pass needs besides what went in and came out
Needs = tuple[bool, bool, bool]  # gradients of input, weight and bias
Slopes = tuple[Tensor | None, Tensor | None, Tensor | None]


class Stats(NamedTuple):
    """The buffers of batch-norm; in training they are moved where they are, so they are the pass's own."""

    buffers: Tree
    train: bool


class Trace(NamedTuple):
    """What the backward pass of a link needs."""

    taken: Tensor  # what entered it
    made: Tensor  # what left it
    kept: Kept


class Memory(NamedTuple):
    """One pass's traces, for a batch of any size."""

    capacity: int
    trace: list[Trace]


class Layer(Protocol):
    """A link at work; images have their channels last."""

    def forward(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stats: Stats
    ) -> tuple[Tensor, Kept]: ...

    def backward(self, dy: Tensor, trace: Trace, weight: Tensor, stats: Stats, needs: Needs) -> Slopes: ...


class TorchRunner:
    """The chain, layer by layer; others may take the place of torch's own."""

    def __init__(self, chain: Chain, other: Callable[[Link], Layer | None] = lambda _: None) -> None:
        self._images, self._tap = chain.links[0].kernel is not None, chain.tap
        self._layers = [other(link) or _layer(link) for link in chain.links]

    def memory(self, batch: int) -> Memory:
        """Room for the traces of a pass."""
        return Memory(batch, [])

    def forward(
        self, memory: Memory, x: Tensor, params: Sequence[Tensor | None], stats: Stats
    ) -> tuple[Tensor, Tensor]:
        """(logits, features)."""
        memory.trace.clear()
        value = channels_last(x) if self._images else x.flatten(1)
        for index, layer in enumerate(self._layers):
            weight, bias = params[2 * index], params[2 * index + 1]
            assert weight is not None
            value = value.flatten(1) if weight.ndim == 2 else value
            made, kept = layer.forward(value, weight, bias, stats)
            memory.trace.append(Trace(value, made, kept))
            value = made
        return value.clone(), memory.trace[self._tap].taken.clone()

    def backward(
        self,
        memory: Memory,
        x: Tensor,
        params: Sequence[Tensor | None],
        d_logits: Tensor | None,
        d_features: Tensor | None,
        wanted: Sequence[bool],
        stats: Stats,
    ) -> list[Tensor | None]:
        """Gradients of the parameters that are wanted."""
        grads: list[Tensor | None] = [None] * len(params)
        lowest = min(i for i, want in enumerate(wanted) if want) // 2
        slope = torch.zeros_like(memory.trace[-1].made) if d_logits is None else d_logits
        for index in range(len(self._layers) - 1, lowest - 1, -1):
            trace, weight = memory.trace[index], params[2 * index]
            assert weight is not None
            bias = params[2 * index + 1] is not None and wanted[2 * index + 1]
            needs = index > lowest, wanted[2 * index], bias
            slope = slope.reshape(trace.made.shape)
            down, *grads[2 * index : 2 * index + 2] = self._layers[index].backward(
                slope, trace, weight, stats, needs
            )
            if down is not None:
                slope = down
                if index == self._tap and d_features is not None:
                    slope += d_features
        return grads


@dataclass(frozen=True)
class TorchLinear:
    """A linear layer with its ReLU."""

    link: Link

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, stats: Stats) -> tuple[Tensor, Kept]:
        """What leaves it."""
        made = torch.mm(x, weight.t()) if bias is None else torch.addmm(bias, x, weight.t())
        return _rectified(made, self.link), ()

    def backward(self, dy: Tensor, trace: Trace, weight: Tensor, stats: Stats, needs: Needs) -> Slopes:
        """The gradients that are needed."""
        dy = _stopped(dy, trace.made, self.link)
        return (
            torch.mm(dy, weight) if needs[0] else None,
            torch.mm(dy.t(), trace.taken) if needs[1] else None,
            dy.sum(0) if needs[2] else None,
        )


@dataclass(frozen=True)
class TorchConvolution:
    """A convolution with its pooling and ReLU."""

    link: Link

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, stats: Stats) -> tuple[Tensor, Kept]:
        """What leaves it, and what pooling had and chose."""
        wide = self.convolved(x, weight, bias)
        made, chosen = _pooled(wide, self.link)
        return _rectified(made, self.link), (wide, *chosen)

    def backward(self, dy: Tensor, trace: Trace, weight: Tensor, stats: Stats, needs: Needs) -> Slopes:
        """The gradients that are needed."""
        dy = _unpooled(_stopped(dy, trace.made, self.link), *trace.kept, link=self.link)
        return self.slopes(dy, trace.taken, weight, needs)

    def convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution alone."""
        return channels_last(torch.conv2d(x, channels_last(weight), bias, padding=self.link.padding))

    def slopes(self, dy: Tensor, x: Tensor, weight: Tensor, needs: Needs) -> Slopes:
        """The gradients of the convolution alone."""
        sizes = [len(weight)], (1, 1), self.link.padding, (1, 1), False, (0, 0), 1
        below, d_weight, d_bias = _aten.convolution_backward(dy, x, channels_last(weight), *sizes, needs)
        # As torch stores weights, or the next ones would not be stored so either and miss the short way.
        return below, None if d_weight is None else d_weight.contiguous(), d_bias


@dataclass(frozen=True)
class TorchNorm:
    """Batch-norm with its pooling and ReLU."""

    link: Link
    norm: Norm

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, stats: Stats) -> tuple[Tensor, Kept]:
        """What leaves it, the moments of the batch, and what pooling had and chose."""
        how = *self._moving(stats), stats.train, self.norm.momentum, self.norm.eps
        wide, mean, inverse = _aten.native_batch_norm(x, weight, bias, *how)
        made, chosen = _pooled(wide, self.link)
        return _rectified(made, self.link), (mean, inverse, wide, *chosen)

    def backward(self, dy: Tensor, trace: Trace, weight: Tensor, stats: Stats, needs: Needs) -> Slopes:
        """The gradients that are needed."""
        mean, inverse, *pooling = trace.kept
        dy = _unpooled(_stopped(dy, trace.made, self.link), *pooling, link=self.link)
        how = *self._moving(stats), mean, inverse, stats.train, self.norm.eps
        below, d_weight, d_bias = _aten.native_batch_norm_backward(dy, trace.taken, weight, *how, needs)
        return below, d_weight, d_bias

    def _moving(self, stats: Stats) -> tuple[Tensor, Tensor]:
        return stats.buffers[self.norm.mean], stats.buffers[self.norm.variance]


def _layer(link: Link) -> Layer:
    if link.norm:
        return TorchNorm(link, link.norm)
    return TorchConvolution(link) if link.kernel else TorchLinear(link)


def channels_last(images: Tensor) -> Tensor:
    """The images as [batch][height][width][channels] in memory."""
    return images.to(memory_format=torch.channels_last)


def _rectified(made: Tensor, link: Link) -> Tensor:
    return made.relu_() if link.relu else made


def _stopped(dy: Tensor, made: Tensor, link: Link) -> Tensor:
    if not link.relu:
        return dy
    found: Tensor = _aten.threshold_backward(dy, made, 0)
    return found


def _pooled(wide: Tensor, link: Link) -> tuple[Tensor, Kept]:
    """What is left, and which inputs pooling took if there is any."""
    if link.pool == (1, 1):
        return wide, ()
    made, chosen = _aten.max_pool2d_with_indices(wide, link.pool, link.pool)
    return made, (chosen,)


def _unpooled(dy: Tensor, wide: Tensor, *chosen: Tensor, link: Link) -> Tensor:
    if not chosen:
        return dy
    shape = wide, link.pool, link.pool, (0, 0), (1, 1), False, *chosen
    found: Tensor = _aten.max_pool2d_with_indices_backward(channels_last(dy), *shape)
    return found
