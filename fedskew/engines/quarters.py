"""How a process is set up to run clients: one thread, tiny numbers flushed, memory kept, the backend chosen."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from fedskew.kernels import Backend, using

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_KEPT = 1 << 30
_TINY = 1e-40  # below what single precision holds without leading zeros


@contextmanager
def one_thread() -> Iterator[None]:
    """A second thread buys little in small steps and changes bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def flushed() -> Iterator[None]:
    """Numbers with leading zeros count as zero. Many processors are slow at them, and the gradients of a client that
    tells its few classes apart without error are full of them.
    """
    before = not (torch.tensor(_TINY) * 1).item()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@contextmanager
def quarters(backend: Backend) -> Iterator[None]:
    """One thread, tiny numbers flushed, and the backend."""
    with one_thread(), flushed(), using(backend):
        yield


def keep_memory() -> None:
    """Freed memory stays with the process: else every step gives pages back and faults them in again."""
    with suppress(AttributeError, OSError):  # there is nothing to set outside of glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT)
