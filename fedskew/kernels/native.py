"""Chains on the native kernels: one call forward, one call backward."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew.kernels.build import entry, library
from fedskew.kernels.chain import Chain, Link, Pair

TYPES = {torch.float32: "float32", torch.float64: "float64"}
_ALIGNMENT = 64


class Memory(NamedTuple):
    """One pass's buffers."""

    capacity: int
    start: int
    block: Tensor


class NativeRunner:
    """The chain for examples of one shape and precision."""

    def __init__(
        self, chain: Chain, shape: tuple[int, ...], dtype: torch.dtype, capability: str | None = None
    ) -> None:
        lib, name = library(capability), TYPES[dtype]
        self._layers, self._tap = _layers(chain, shape), chain.tap
        self._count, self._dtype = len(chain.links), dtype
        self._width, self._outputs = chain.links[chain.tap].inputs, chain.links[-1].outputs
        self._size = entry(lib, f"arena_{name}", "pii", "i")
        self._forward = entry(lib, f"forward_{name}", "piipppipp")
        self._backward = entry(lib, f"backward_{name}", "piipppippp")

    def memory(self, batch: int) -> Memory:
        """Buffers for a batch of this size."""
        size = self._size(self._layers, self._count, batch)
        block = torch.empty(size + _ALIGNMENT, dtype=torch.uint8)
        return Memory(batch, -(-block.data_ptr() // _ALIGNMENT) * _ALIGNMENT, block)

    def forward(
        self, memory: Memory, x: Tensor, params: Sequence[Tensor | None], stats: object = None
    ) -> tuple[Tensor, Tensor]:
        """(logits, features)."""
        logits = torch.empty(len(x), self._outputs, dtype=self._dtype)
        features = torch.empty(len(x), self._width, dtype=self._dtype)
        self._forward(*self._head(memory, x, params), features.data_ptr(), logits.data_ptr())
        return logits, features

    def backward(
        self,
        memory: Memory,
        x: Tensor,
        params: Sequence[Tensor | None],
        d_logits: Tensor | None,
        d_features: Tensor | None,
        wanted: Sequence[bool],
        stats: object = None,
    ) -> list[Tensor | None]:
        """Gradients of the parameters that are wanted."""
        grads = [
            torch.empty_like(p) if p is not None and w else None for p, w in zip(params, wanted, strict=True)
        ]
        head = self._head(memory, x, params)
        d_logits, d_features = (None if d is None else d.contiguous() for d in (d_logits, d_features))
        self._backward(*head, _pointer(d_features), _pointer(d_logits), pointers(grads))
        return grads

    def _head(self, memory: Memory, x: Tensor, params: Sequence[Tensor | None]) -> tuple[object, ...]:
        sizes = self._layers, self._count, len(x)
        return *sizes, pointers(params), x.data_ptr(), memory.start, self._tap


def _layers(chain: Chain, shape: tuple[int, ...]) -> ctypes.Array[ctypes.c_int64]:
    grids = chain.grids(shape) or []
    numbers = [
        number for link, grid in zip(chain.links, grids, strict=True) for number in _numbers(link, grid)
    ]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _numbers(link: Link, grid: Pair) -> tuple[int, ...]:
    """The fields of a `Layer` in native.cpp."""
    kernel = link.kernel or (1, 1)
    start = int(link.kernel is not None), link.inputs, *grid, link.outputs
    return *start, *kernel, *link.padding, *link.pool, int(link.relu)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def pointers(tensors: Sequence[Tensor | None]) -> ctypes.Array[ctypes.c_void_p]:
    """Where the tensors lie, as a C array; null for None."""
    return (ctypes.c_void_p * len(tensors))(*[None if t is None else t.data_ptr() for t in tensors])
