"""Whether the participants of a round pull the same way."""

import math

import torch

from fedskew.tree import Tree


def mean_cosine(before: Tree, stacked: Tree) -> float:
    """Mean cosine over all pairs of clients' updates: 1 the same way, 0 unrelated, -1 against each other.

    NaN without two clients that moved, or where what is uploaded has not the shape of what was received.
    """
    names = [name for name in stacked if before[name].is_floating_point()]
    if not names or any(stacked[name].shape[1:] != before[name].shape for name in names):
        return math.nan
    moves = [(stacked[name] - before[name]).reshape(len(stacked[name]), -1) for name in names]
    lengths = torch.stack([move.double().square().sum(1) for move in moves]).sum(0).sqrt()
    count = int((lengths > 0).sum())
    if count < 2:
        return math.nan
    scale = torch.where(lengths > 0, 1 / lengths, 0)
    # |sum of unit vectors|^2 is the sum over all pairs, a vector with itself included.
    total = math.fsum(float((scale @ move.double()).square().sum()) for move in moves)
    return (total - count) / (count * (count - 1))
