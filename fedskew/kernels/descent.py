"""One step of SGD on a whole tree, in as few passes over memory as the backend allows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew.kernels.backend import current
from fedskew.kernels.build import UnavailableError, library
from fedskew.kernels.native import TYPES, pointers
from fedskew.tree import Tree


class Rates(NamedTuple):
    """The numbers of SGD as torch defines them."""

    lr: float
    momentum: float
    decay: float


def descend(params: Tree, direction: Tree, memory: Tree, rates: Rates) -> tuple[Tree, Tree]:
    """(new parameters, new memory)."""
    if current() == "native" and not torch._C._are_functorch_transforms_active():
        done = _native(params, direction, memory, rates)
        if done is not None:
            return done
    if rates.decay:
        direction = {n: torch.add(g, params[n], alpha=rates.decay) for n, g in direction.items()}
    if rates.momentum:
        direction = memory = {n: torch.add(g, memory[n], alpha=rates.momentum) for n, g in direction.items()}
    return {n: torch.sub(w, direction[n], alpha=rates.lr) for n, w in params.items()}, memory


def _native(params: Tree, direction: Tree, memory: Tree, rates: Rates) -> tuple[Tree, Tree] | None:
    """The same by the native kernels; None where they cannot."""
    names, weights = list(params), list(params.values())
    slopes = [direction[name] for name in names]
    old = [memory[name] for name in names] if rates.momentum else []
    step = _kernel(weights[0].dtype) if weights else None
    if step is None or not all(_like(value, weights[0]) for value in (*weights, *slopes, *old)):
        return None
    moved = [torch.empty_like(w) for w in weights]
    kept = [torch.empty_like(w) for w in old]
    counts = (ctypes.c_int64 * len(weights))(*[w.numel() for w in weights])
    none = [None] * len(weights)
    trees = (pointers(values) for values in (weights, slopes, old or none, moved, kept or none))
    step(ctypes.c_int64(len(weights)), counts, *trees, *(ctypes.c_double(rate) for rate in rates))
    return dict(zip(names, moved, strict=True)), dict(zip(names, kept, strict=True)) if old else memory


def _like(value: Tensor, first: Tensor) -> bool:
    return value.dtype == first.dtype and value.is_contiguous() and value.is_cpu


@cache
def _kernel(dtype: torch.dtype) -> Callable[..., object] | None:
    try:
        return library()[f"descend_{TYPES[dtype]}"] if dtype in TYPES else None
    except UnavailableError:
        return None
