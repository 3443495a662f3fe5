"""How skewed a partition is."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedskew.data.partition.dealing import Floats, Indices, row, tally
from fedskew.errors import DataError


class Summary(NamedTuple):
    """The skew of a partition in a few numbers."""

    distance: float  # mean Jensen-Shannon distance (base 2) of a client's label distribution from everyone's
    missing: float  # share of the (client, class) pairs without a sample
    distinct: tuple[int, ...]  # number of classes each client has


def counts(labels: Indices, parts: Sequence[Indices], classes: int) -> Indices:
    """How many samples of each class each client has, [K, C]."""
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    mine = row(labels)[np.concatenate([row([]), *map(row, parts)])]
    if mine.size and not 0 <= mine.min() <= mine.max() < classes:
        raise DataError(f"labels go from {mine.min()} to {mine.max()}, but there are {classes} classes")
    return tally(owner, mine, (len(parts), classes))


def summary(table: Indices) -> Summary:
    """Measures the skew of class counts [K, C]; a client without samples does not count in the distance."""
    present = table[table.sum(axis=1) > 0]
    local = present / present.sum(axis=1, keepdims=True)
    everyone = np.broadcast_to(table.sum(axis=0) / table.sum(), local.shape)
    middle = (local + everyone) / 2
    divergence = (_relative_entropy(local, middle) + _relative_entropy(everyone, middle)) / 2
    distance = float(np.sqrt(np.maximum(divergence, 0)).mean())
    return Summary(distance, float((table == 0).mean()), tuple((table > 0).sum(axis=1).tolist()))


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    ratio = np.divide(p, q, out=np.ones_like(q), where=p > 0)
    return np.asarray((p * np.log2(ratio)).sum(axis=1))
