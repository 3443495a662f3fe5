"""One step of SGD on a whole tree, in as few passes over memory as the backend allows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

import torch

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
    weights, slopes = list(params.values()), [direction[name] for name in params]
    old = [memory[name] for name in params] if rates.momentum else [None] * len(params)
    step = _kernel(weights[0].dtype) if weights else None
    given = [value for value in (*weights, *slopes, *old) if value is not None]
    if step is None or not all(v.dtype == weights[0].dtype and v.is_contiguous() and v.is_cpu for v in given):
        return None
    moved = [torch.empty_like(w) for w in weights]
    kept = [torch.empty_like(w) for w in weights] if rates.momentum else old
    counts = (ctypes.c_int64 * len(weights))(*[w.numel() for w in weights])
    numbers = (ctypes.c_double(rate) for rate in rates)
    trees = (pointers(values) for values in (weights, slopes, old, moved, kept))
    step(ctypes.c_int64(len(weights)), counts, *trees, *numbers)
    return dict(zip(params, moved, strict=True)), dict(
        zip(params, kept, strict=True)
    ) if rates.momentum else memory


def _kernel(dtype: torch.dtype) -> Callable[..., None] | None:
    if dtype not in TYPES:
        return None
    try:
        return getattr(library(), f"descend_{TYPES[dtype]}")
    except UnavailableError:
        return None
