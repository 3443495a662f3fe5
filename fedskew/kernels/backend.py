"""Which code runs a plain network: chosen by the engine, for everything inside a `with`."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Backend = Literal["autograd", "torch", "native"]

_current: ContextVar[Backend] = ContextVar("backend", default="autograd")


def current() -> Backend:
    """The backend of the surrounding `using`."""
    return _current.get()


@contextmanager
def using(backend: Backend) -> Iterator[None]:
    """Runs plain networks with this backend; any other network as torch does."""
    token = _current.set(backend)
    try:
        yield
    finally:
        _current.reset(token)
