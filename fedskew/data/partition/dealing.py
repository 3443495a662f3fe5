"""The arithmetic of dealing: how a class is cut, who gets which sample, which samples become a test."""

from itertools import pairwise

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedskew.errors import ConfigError

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

NOBODY = -1


def row(values: ArrayLike) -> Indices:
    """Lists, tensors and whole numbers of any type as an array; an empty list has no type of its own."""
    made: Indices = np.asarray(values)
    return made.astype(np.int64) if made.dtype.kind in "iu" or not made.size else made


def cut(shares: Floats, totals: Indices) -> Indices:
    """Cuts class c at floor(cumsum(shares of c) * total of c); shares [K, C], totals [C], sizes [K, C]."""
    running = np.cumsum(shares, axis=0)
    # Divided by its own end, the last cut is exactly the total: rounding never leaves a sample over.
    edges = running / running[-1] * totals
    return between(
        np.floor(edges + 1e-9).astype(np.int64)
    )  # 0.29 of 100 are 29, whatever floating point says


def matched(counts: Indices, totals: Indices) -> Indices:
    """Cuts each class in the proportions of counts [K, C]; who has none of a class gets none of it."""
    running = np.cumsum(counts, axis=0)
    return between(running * totals // np.maximum(running[-1], 1))


def rounded(weights: Floats, totals: Indices) -> Indices:
    """Gives each client round(total * weight / sum of weights) of a class, in turn, as long as it lasts."""
    whole = weights.sum(axis=0)
    wish = np.round(totals * weights / np.where(whole > 0, whole, 1)).astype(np.int64)
    return between(np.minimum(np.cumsum(wish, axis=0), totals))


def between(edges: Indices) -> Indices:
    """The sizes [K, C] of the pieces that end at these edges [K, C]."""
    return np.asarray(np.diff(edges, axis=0, prepend=0), dtype=np.int64)


def even(holds: Mask, totals: Indices) -> Indices:
    """Cuts each class in near-equal parts, one for every client that holds it."""
    holders = holds.sum(axis=0)
    if (holders > totals).any():
        label = int(np.argmax(holders - totals))
        raise ConfigError(
            f"class {label} has {totals[label]} samples for {holders[label]} clients, fewer than one each; "
            "use fewer clients or fewer classes per client"
        )
    smaller, longer = np.divmod(totals, np.maximum(holders, 1))
    return np.where(holds, smaller + (np.cumsum(holds, axis=0) <= longer), 0)


def pick(keys: Floats, many: int | Indices) -> Mask:
    """Marks in each row the `many` columns with the smallest keys; equal chances if the keys are random."""
    chosen = np.zeros(keys.shape, dtype=np.bool_)
    among_the_first = np.arange(keys.shape[1]) < np.reshape(many, (-1, 1))
    np.put_along_axis(chosen, np.argsort(keys, axis=1), among_the_first, axis=1)
    return chosen


def widened(chosen: Mask, present: Mask) -> Mask:
    """What is chosen among the classes that there are [K, present], as [K, C]."""
    wide = np.zeros((len(chosen), len(present)), dtype=np.bool_)
    wide[:, present] = chosen
    return wide


def distinct(held: Indices, random: Generator) -> Mask:
    """Swaps labels between clients until none of the counts [K, C] exceeds one; row and column sums stay.

    Rows must have one common sum, and no column may sum to more than K. Then it ends: if client k holds label
    a twice, some client j holds none of it, and j has a label b that k lacks or that j itself holds twice. To
    exchange a and b takes a duplicate from k, and gives it one of b only if it takes that one from j.
    """
    held = held.copy()
    while len(twice := np.argwhere(held > 1)):
        for k, a in twice:
            if held[k, a] > 1:
                while held[j := random.integers(len(held)), a]:
                    pass
                fit = np.flatnonzero((held[j] > 0) & ((held[k] == 0) | (held[j] > 1)))
                b = fit[random.integers(len(fit))]
                held[[k, j], [a, b]] -= 1
                held[[k, j], [b, a]] += 1
    return held > 0


def grouped(keys: Indices, random: Generator) -> Indices:
    """An order in which equal keys stand together, shuffled among themselves."""
    order = random.permutation(len(keys))
    return order[np.argsort(keys[order], kind="stable")]


def hand_out(labels: Indices, sizes: Indices, random: Generator) -> Indices:
    """The owner of each sample when client k gets sizes[k, c] random ones of class c and NOBODY the rest."""
    rest = np.bincount(labels, minlength=sizes.shape[1]) - sizes.sum(axis=0)
    takers = np.append(np.arange(len(sizes)), NOBODY)
    owner = np.empty(len(labels), dtype=np.int64)
    owner[grouped(labels, random)] = np.repeat(np.tile(takers, len(rest)), np.vstack([sizes, rest]).T.ravel())
    return owner


def renumbered(keep: Mask) -> Indices:
    """The new number of each client when only these are kept, else NOBODY; NOBODY's own comes last."""
    return np.append(np.where(keep, np.cumsum(keep) - 1, NOBODY), NOBODY)


def sample(owner: Indices, share: float, random: Generator) -> Mask:
    """Marks a share of each client's samples at random, rounded down, at least one and never all."""
    order = grouped(owner, random)
    sizes = np.bincount(owner + 1)
    place = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner[order] + 1]
    take = np.clip(np.floor(sizes * share), 1, np.maximum(sizes - 1, 1))
    marked = np.empty(len(owner), dtype=np.bool_)
    marked[order] = (place < take[owner[order] + 1]) & (owner[order] != NOBODY)
    return marked


def stratified(owner: Indices, labels: Indices, share: float, random: Generator) -> Mask:
    """Marks a share (at most half) of each client's samples of each class, to rounding; none of a lone one.

    Systematic sampling: a client's samples stand in a row by class, and every (1 / share)th is marked. So the
    share of the client is right as well; rounding class by class would mark too many of the rare classes.
    """
    cell = np.where(owner == NOBODY, 0, 1 + owner * (labels.max() + 1) + labels)
    order = grouped(cell, random)
    order = order[((np.bincount(cell) > 1)[cell] & (owner != NOBODY))[order]]
    who = owner[order]
    place = np.arange(len(order)) - np.searchsorted(who, who)
    start = random.random(owner.max() + 1)[who]
    marked = np.zeros(len(owner), dtype=np.bool_)
    marked[order] = np.floor((place + 1) * share + start) > np.floor(place * share + start)
    return marked


def tally(owner: Indices, labels: Indices, shape: tuple[int, int]) -> Indices:
    """How many samples of each class each client has, [K, C]."""
    owned = owner != NOBODY
    cells = np.bincount(owner[owned] * shape[1] + labels[owned], minlength=shape[0] * shape[1])
    return cells.astype(np.int64).reshape(shape)


def parts(positions: Indices, owner: Indices, clients: int) -> tuple[Indices, ...]:
    """The positions of each client, in the order in which they were given."""
    order = np.argsort(owner, kind="stable")
    edges = np.searchsorted(owner[order], np.arange(clients + 1))
    owned = positions[order]
    return tuple(owned[start:stop] for start, stop in pairwise(edges))
