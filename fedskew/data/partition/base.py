"""What a partition is, what a scheme must do, and the one function that runs a scheme."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from fedskew.data import markup
from fedskew.data.partition.dealing import Indices, row
from fedskew.errors import ConfigError, DataError
from fedskew.keys import stream

TRIES = 1000  # draws before a scheme gives up


class Partition(NamedTuple):
    """What each client owns, as positions in the pool; no position occurs twice."""

    train: tuple[Indices, ...]
    test: tuple[Indices, ...]  # a client's may be empty
    novel: tuple[int, ...] = ()  # clients that never train, kept to evaluate on clients nobody has seen

    def _repr_html_(self) -> str:
        """How much each client has, for notebooks; labels are not known here."""
        sizes = [(len(train), len(test)) for train, test in zip(self.train, self.test, strict=True)]
        return markup.sizes(sizes, self.novel)


class Samples(NamedTuple):
    """Some positions of the pool and what a scheme may know about them."""

    positions: Indices
    labels: Indices
    totals: Indices  # samples of each class
    owners: Indices | None


class Scheme(ABC):
    """A way to deal samples to clients: its settings, and no state."""

    @abstractmethod
    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        """Deals the training samples, and to each client a local test."""


def split(
    scheme: Scheme, labels: Indices, train: Indices, test: Indices, seed: int, owners: Indices | None = None
) -> Partition:
    """Deals the train and test positions of a labelled pool; equal arguments give equal partitions."""
    whole("seed", seed, 0)
    labels, train, test = row(labels), row(train), row(test)
    owners = None if owners is None else row(owners)
    _check(labels, train, test, owners)
    random = stream("partition", seed)
    partition = scheme.deal(_samples(labels, train, owners), _samples(labels, test, owners), random)
    idle = sum(len(part) == 0 for part in partition.train)
    if idle:
        raise ConfigError(
            f"{scheme} leaves {idle} of {len(partition.train)} clients without a training sample "
            f"({len(train)} samples in all); use fewer clients or less skew"
        )
    return partition


def hold_out(partition: Partition, share: float, seed: int) -> Partition:
    """Marks a share of the clients as novel, rounded half up; at least one is left to train."""
    number("share of novel clients", share, 0, 1)
    whole("seed", seed, 0)
    clients = len(partition.train)
    many = min(int(share * clients + 0.5), clients - 1)
    chosen = stream("partition", seed, 1).choice(clients, size=many, replace=False)
    return partition._replace(novel=tuple(sorted(chosen.tolist())))


def whole(what: str, value: object, least: int) -> None:
    """Refuses what is not a whole number of at least this much."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{what} must be a whole number of at least {least}, not {value!r}")


def number(what: str, value: object, least: float, most: float) -> None:
    """Refuses what is not a number between these two."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.number)
        or not least <= value <= most
    ):
        raise ConfigError(f"{what} must be a number from {least:g} to {most:g}, not {value!r}")


def flag(what: str, value: object) -> None:
    """Refuses what is neither true nor false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what} must be true or false, not {value!r}")


def enough_samples(train: Samples, clients: int) -> None:
    """Refuses more clients than there are samples."""
    if clients > len(train.labels):
        raise ConfigError(
            f"{clients} clients, but only {len(train.labels)} training samples; use fewer clients"
        )


def enough_classes(train: Samples, wanted: int) -> None:
    """Refuses more classes for a client than there are."""
    classes = (train.totals > 0).sum()
    if wanted > classes:
        raise ConfigError(
            f"{wanted} classes for each client, but the data have only {classes}; ask for fewer"
        )


def _samples(labels: Indices, positions: Indices, owners: Indices | None) -> Samples:
    mine = labels[positions].astype(np.int64)
    totals = np.bincount(mine, minlength=int(labels.max()) + 1).astype(np.int64)
    return Samples(positions.astype(np.int64), mine, totals, None if owners is None else owners[positions])


def _check(labels: Indices, train: Indices, test: Indices, owners: Indices | None) -> None:
    rows = {"labels": labels, "train": train, "test": test, "owners": labels if owners is None else owners}
    for name, given in rows.items():
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise DataError(f"{name} must be one row of integers, not {given.dtype} of shape {given.shape}")
    if len(rows["owners"]) != len(labels):
        raise DataError(f"{len(rows['owners'])} owners for {len(labels)} samples; each sample needs one")
    if len(train) == 0:
        raise DataError("there is no training sample to deal: the list of train positions is empty")
    used = np.concatenate([train, test])
    if used.min() < 0 or used.max() >= len(labels):
        raise DataError(f"positions go from {used.min()} to {used.max()} in a pool of {len(labels)} samples")
    if labels.min() < 0:
        raise DataError(f"labels must be 0 or more; the least is {labels.min()}")
    if np.bincount(used).max() > 1:
        raise DataError("a sample is listed twice among the train and test positions; it would leak")
