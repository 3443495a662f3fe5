"""Train and test positions for data whose publisher gives none."""

import numpy as np
from numpy.typing import NDArray

from fedskew.data.dataset import Indices


def stratified(
    y: Indices, seed: int, share: float = 0.2, groups: Indices | None = None
) -> tuple[Indices, Indices]:
    """Train and test positions, `share` of every class (of every group) in test; a lone sample is train."""
    rng = np.random.default_rng(seed)
    owner = np.zeros_like(y) if groups is None else groups
    test = np.zeros(len(y), bool)
    for cell in cells(owner, y):
        count = max(1, round(share * len(cell))) if len(cell) > 1 and share > 0 else 0
        test[rng.permutation(cell)[:count]] = True
    return np.flatnonzero(~test), np.flatnonzero(test)


def cells(owner: Indices, y: Indices) -> list[NDArray[np.int64]]:
    """The positions of each (owner, class) that occurs, in order."""
    order = np.lexsort((y, owner))
    changes = np.flatnonzero((np.diff(owner[order]) != 0) | (np.diff(y[order]) != 0)) + 1
    return [np.asarray(cell, np.int64) for cell in np.split(order, changes)] if len(y) else []
