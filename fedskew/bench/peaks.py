"""What this machine can do at best, measured: multiply-adds in registers, and large matrix products."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import torch

from fedskew.kernels.build import UnavailableError, entry, library

_ROUNDS = 10_000_000
_SIZE = 1024  # of a square matrix
_TIMES = 5


class Peaks(NamedTuple):
    """GFLOP/s in float32 of so many cores at once."""

    cores: int
    fma: float | None  # None without native kernels
    gemm: float


def peaks(cores: int) -> Peaks:
    """The best of several trials, every core at work."""
    try:
        multiply_add = entry(library(), "multiply_add_float32", "ip", "i")
    except UnavailableError:
        fma = None
    else:
        fma = _best(cores, partial(multiply_add, _ROUNDS, ctypes.byref(ctypes.c_float())))
    return Peaks(cores, fma, _best(cores, _products()))


def _products() -> Callable[[], float]:
    a, b = torch.randn(_SIZE, _SIZE), torch.randn(_SIZE, _SIZE)

    def run() -> float:
        torch.set_num_threads(1)  # a setting of each thread
        for _ in range(_TIMES):
            torch.mm(a, b)
        return 2.0 * _TIMES * _SIZE**3

    return run


def _best(cores: int, run: Callable[[], float]) -> float:
    """GFLOP/s of `run`, which returns its operations, in as many threads; both kinds let go of Python's lock."""
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(cores) as pool:
        rates = []
        for _ in range(_TIMES):
            start = time.perf_counter()
            done = sum(pool.map(lambda _: run(), range(cores)))
            rates.append(done / (time.perf_counter() - start) / 1e9)
    torch.set_num_threads(threads)
    return max(rates)
