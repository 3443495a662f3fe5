"""Chains on torch's own operations: images with channels last, buffers kept, no bookkeeping of autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fedskew.kernels.chain import Chain, Link, Norm, Pair
from fedskew.tree import Tree

_aten = torch.ops.aten


class Trace(NamedTuple):
    """What the backward pass of a link needs."""

    taken: Tensor  # what entered it
    made: Tensor  # what left it
    wide: Tensor  # a convolution before its pooling
    chosen: Tensor | None  # which inputs pooling took
    moments: tuple[Tensor, ...] = ()  # mean and inverse deviation that batch-norm took from the batch


class Stats(NamedTuple):
    """The buffers of batch-norm; in training they are moved where they are, so they are the pass's own."""

    buffers: Tree
    train: bool


class Memory(NamedTuple):
    """One pass's buffers: what each linear link makes, the gradient of what it takes, and the trace."""

    capacity: int
    outputs: dict[int, Tensor]
    gradients: dict[int, Tensor]
    trace: list[Trace]


Needs = tuple[bool, bool, bool]  # gradients of input, weight and bias
Slopes = tuple[Tensor | None, Tensor | None, Tensor | None]


class Convolution(Protocol):
    """A convolution of images with channels last."""

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor: ...

    def backward(self, dy: Tensor, x: Tensor, weight: Tensor, needs: Needs) -> Slopes: ...


class TorchRunner:
    """The chain for examples of one precision; other convolutions may take the place of torch's."""

    def __init__(
        self, chain: Chain, dtype: torch.dtype, other: Callable[[Link], Convolution | None] = lambda _: None
    ) -> None:
        self._links, self._tap, self._dtype = chain.links, chain.tap, dtype
        self._convolutions = {
            index: other(link) or TorchConvolution(link.padding)
            for index, link in enumerate(chain.links)
            if link.kernel
        }

    def memory(self, batch: int) -> Memory:
        """Buffers for a batch of at most this size."""
        linear = {i: link for i, link in enumerate(self._links) if link.linear}

        def rows(width: int) -> Tensor:
            return torch.empty(batch, width, dtype=self._dtype)

        outputs = {i: rows(link.outputs) for i, link in linear.items()}
        return Memory(batch, outputs, {i: rows(link.inputs) for i, link in linear.items()}, [])

    def forward(
        self, memory: Memory, x: Tensor, params: Sequence[Tensor | None], stats: Stats
    ) -> tuple[Tensor, Tensor]:
        """(logits, features)."""
        memory.trace.clear()
        value = channels_last(x) if self._links[0].kernel else x.flatten(1)
        for index, link in enumerate(self._links):
            weight, bias = params[2 * index], params[2 * index + 1]
            assert weight is not None
            moments: tuple[Tensor, ...] = ()
            if link.linear:
                value = value.flatten(1)
                made = _linear(value, weight, bias, memory.outputs[index][: len(x)])
                wide, chosen = made, None
            else:
                if link.norm:
                    how = *_moving(link.norm, stats), stats.train, link.norm.momentum, link.norm.eps
                    wide, *moments = _aten.native_batch_norm(value, weight, bias, *how)
                else:
                    wide = self._convolutions[index].forward(value, weight, bias)
                made, chosen = _pooled(wide, link)
            if link.relu:
                made.relu_()
            memory.trace.append(Trace(value, made, wide, chosen, tuple(moments)))
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
        for index in range(len(self._links) - 1, lowest - 1, -1):
            link, trace, weight = self._links[index], memory.trace[index], params[2 * index]
            assert weight is not None
            needs = (
                index > lowest,
                wanted[2 * index],
                params[2 * index + 1] is not None and wanted[2 * index + 1],
            )
            slope = slope.reshape(trace.made.shape)
            if link.relu:
                slope = _aten.threshold_backward(slope, trace.made, 0)
            if link.linear:
                into = memory.gradients[index][: len(x)]
                down, *found = _linear_backward(slope, trace.taken, weight, into, needs)
            elif link.norm:
                how = *_moving(link.norm, stats), *trace.moments, stats.train, link.norm.eps
                down, *found = _aten.native_batch_norm_backward(
                    _unpooled(slope, trace, link), trace.taken, weight, *how, needs
                )
            else:
                slope = _unpooled(slope, trace, link)
                down, *found = self._convolutions[index].backward(slope, trace.taken, weight, needs)
            grads[2 * index], grads[2 * index + 1] = found
            if down is not None:
                slope = down
                if index == self._tap and d_features is not None:
                    slope += d_features
        return grads


class TorchConvolution(NamedTuple):
    """Torch's own."""

    padding: Pair

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution."""
        return channels_last(torch.conv2d(x, channels_last(weight), bias, padding=self.padding))

    def backward(self, dy: Tensor, x: Tensor, weight: Tensor, needs: Needs) -> Slopes:
        """The gradients that are needed."""
        sizes = [len(weight)], (1, 1), self.padding, (1, 1), False, (0, 0), 1
        below, d_weight, d_bias = _aten.convolution_backward(dy, x, channels_last(weight), *sizes, needs)
        # As torch stores weights, or the next ones would not be stored so either and miss the short way.
        return below, None if d_weight is None else d_weight.contiguous(), d_bias


def _moving(norm: Norm, stats: Stats) -> tuple[Tensor, Tensor]:
    return stats.buffers[norm.mean], stats.buffers[norm.variance]


def channels_last(images: Tensor) -> Tensor:
    """The images as [batch][height][width][channels] in memory."""
    return images.to(memory_format=torch.channels_last)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    return torch.mm(x, weight.t(), out=out) if bias is None else torch.addmm(bias, x, weight.t(), out=out)


def _pooled(wide: Tensor, link: Link) -> tuple[Tensor, Tensor | None]:
    if link.pool == (1, 1):
        return wide, None
    made, chosen = _aten.max_pool2d_with_indices(wide, link.pool, link.pool)
    return made, chosen


def _linear_backward(dy: Tensor, x: Tensor, weight: Tensor, into: Tensor, needs: Needs) -> Slopes:
    below, d_weight, d_bias = needs
    return (
        torch.mm(dy, weight, out=into) if below else None,
        torch.mm(dy.t(), x) if d_weight else None,
        dy.sum(0) if d_bias else None,
    )


def _unpooled(slope: Tensor, trace: Trace, link: Link) -> Tensor:
    if trace.chosen is None:
        return slope
    shape = trace.wide, link.pool, link.pool, (0, 0), (1, 1), False, trace.chosen
    found: Tensor = _aten.max_pool2d_with_indices_backward(channels_last(slope), *shape)
    return found
