"""The one place where randomness is drawn: every stream has a name and a key, never a position in a sequence."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

STREAMS = (
    "participants",
    "order",
    "model",
    "client",
    "partition",
    "share",
    "augment",
    "dropout",
    "epoch",
    "noise",
)


def stream(name: str, seed: int, *key: int) -> np.random.Generator:
    """An independent generator for this stream, seed and key."""
    # A spawn key keeps (7,) and (7, 0) apart, which a list of words does not.
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAMS.index(name), *key)))


def integer(name: str, seed: int, *key: int) -> int:
    """A seed for torch's generators."""
    return int(stream(name, seed, *key).integers(2**62))


@contextmanager
def chance(name: str, seed: int, *key: int) -> Iterator[None]:
    """What torch draws inside comes from this stream."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer(name, seed, *key))
        yield


def participants(seed: int, round: int, clients: int, ratio: float) -> tuple[int, ...]:
    """max(1, floor(ratio * clients + 0.5)) clients without replacement, in ascending order."""
    count = max(1, int(ratio * clients + 0.5))
    chosen = stream("participants", seed, round).choice(clients, size=count, replace=False)
    return tuple(sorted(int(k) for k in chosen))


def orders(seed: int, round: int, client: int, size: int, epochs: int) -> list[NDArray[np.int64]]:
    """One shuffled pass over `size` examples for every epoch."""
    generator = stream("order", seed, round, client)
    return [generator.permutation(size) for _ in range(epochs)]
