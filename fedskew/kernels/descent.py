"""One step of SGD on a whole tree, in as few passes over memory as the backend allows."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew import tree
from fedskew.kernels.backend import current
from fedskew.kernels.build import UnavailableError, entry, library
from fedskew.kernels.native import TYPES, pointers
from fedskew.tree import Tree


class Rates(NamedTuple):
    """The numbers of SGD as torch defines them, and the largest norm of a direction."""

    lr: float
    momentum: float
    decay: float
    clip: float = math.inf


def descend(params: Tree, direction: Tree, memory: Tree, rates: Rates) -> tuple[Tree, Tree]:
    """(new parameters, new memory); the direction is used up, since what is new may take its place."""
    if current() == "native" and not torch._C._are_functorch_transforms_active():
        done = _native(params, direction, memory, rates)
        if done is not None:
            return done
    direction = clipped(direction, rates.clip)
    if rates.decay:
        direction = {n: torch.add(g, params[n], alpha=rates.decay) for n, g in direction.items()}
    if rates.momentum:
        direction = memory = {n: torch.add(g, memory[n], alpha=rates.momentum) for n, g in direction.items()}
    return {n: torch.sub(w, direction[n], alpha=rates.lr) for n, w in params.items()}, memory


def clipped(direction: Tree, norm: float) -> Tree:
    """The direction, no longer than this."""
    if norm == math.inf:
        return direction
    return tree.scale(direction, (norm / (tree.norm(direction) + 1e-6)).clamp(max=1.0))


def _native(params: Tree, direction: Tree, memory: Tree, rates: Rates) -> tuple[Tree, Tree] | None:
    """The same by the native kernels; None where they cannot."""
    weights = list(params.values())
    slopes = [direction[name] for name in params]
    old = [memory[name] for name in params] if rates.momentum else []
    step = _kernel(weights[0].dtype) if weights else None
    if step is None or not all(_like(value, weights[0]) for value in (*weights, *slopes, *old)):
        return None
    if len({value.data_ptr() for value in (*weights, *slopes, *old)}) < len(weights) + len(slopes) + len(old):
        return None
    none = [None] * len(weights)
    # One list less to bring into the cache: a step of a network of a megabyte waits for memory.
    moved, kept = ([torch.empty_like(w) for w in weights], slopes) if old else (slopes, [])
    counts = (ctypes.c_int64 * len(weights))(*[w.numel() for w in weights])
    step(len(weights), counts, pointers([*weights, *slopes, *(old or none), *moved, *(kept or none)]), *rates)
    return dict(zip(params, moved, strict=True)), dict(zip(params, kept, strict=True)) if old else memory


def _like(value: Tensor, first: Tensor) -> bool:
    return value.dtype == first.dtype and value.is_contiguous() and value.is_cpu


@cache
def _kernel(dtype: torch.dtype) -> Callable[..., object] | None:
    takes = "ipp" + "d" * len(Rates._fields)
    try:
        return entry(library(), f"descend_{TYPES[dtype]}", takes) if dtype in TYPES else None
    except UnavailableError:
        return None
