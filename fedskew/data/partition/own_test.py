"""Schemes in which each client keeps a part of its own data as its test."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fedskew.data.partition import dealing
from fedskew.data.partition.base import (
    TRIES,
    Partition,
    Samples,
    Scheme,
    enough_classes,
    enough_samples,
    number,
    whole,
)
from fedskew.data.partition.dealing import NOBODY, Indices, Mask
from fedskew.errors import ConfigError


@dataclass(frozen=True)
class Incomplete(Scheme):
    """Each client has some of the classes and a lognormal size (MAP); a share of its own data is its test.

    The number of classes is uniform from two to all, or the one given; too small clients are dropped.
    """

    clients: int
    classes_per_client: int | None = None
    sigma: float = 0.3
    test_share: float = 0.2
    minimum: int = 5

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1)
        whole("classes_per_client", 1 if self.classes_per_client is None else self.classes_per_client, 1)
        number("sigma", self.sigma, 0, 10)
        number("test_share", self.test_share, 0, 0.5)
        whole("minimum", self.minimum, 2)

    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        enough_samples(train, self.clients)
        for _ in range(TRIES):
            owner = self._owner(train, self.ownership(train, random), random)
            marked = dealing.sample(owner, self.test_share, random)
            taught = train.labels[(owner != NOBODY) & ~marked]
            if len(np.unique(taught)) == (train.totals > 0).sum():
                return _with_own_test(train, owner, marked)
        raise ConfigError(
            f"a class kept no training sample in {TRIES} draws: with {self.clients} clients its shares round to "
            "none, are dropped with too small clients, or become tests; use fewer clients"
        )

    def _owner(self, train: Samples, owns: Mask, random: Generator) -> Indices:
        """Who gets which sample, when clients that are too small get none."""
        weight = owns / owns.sum(axis=1, keepdims=True) * random.lognormal(0, self.sigma, (self.clients, 1))
        owner = dealing.hand_out(train.labels, dealing.rounded(weight, train.totals), random)
        return _large(owner, self.clients, self.minimum)[owner]

    def ownership(self, train: Samples, random: Generator) -> Mask:
        """Which client has which class, [K, C]: drawn until every class of the data has an owner."""
        present = train.totals > 0
        least, most = min(2, present.sum()), present.sum()
        if self.classes_per_client is not None:
            least = most = self.classes_per_client
            enough_classes(train, most)
        wish = f"{self.clients} clients x {most} classes at most, to own {present.sum()} classes"
        if self.clients * most < present.sum():
            raise ConfigError(f"{wish}, is not enough; use more clients or more classes per client")
        for _ in range(TRIES):
            many = random.integers(least, most, size=self.clients, endpoint=True)
            owns = dealing.pick(random.random((self.clients, present.sum())), many)
            if owns.any(axis=0).all():
                return dealing.widened(owns, present)
        raise ConfigError(f"{wish}, left one without an owner in {TRIES} draws; use more clients")


@dataclass(frozen=True)
class Natural(Scheme):
    """One client for each owner (writer, speaker, patient) with enough training samples.

    Its test is what the dataset keeps for testing of the same owner; if it keeps nothing of any of them, a
    share of each of the client's classes, and none of a class of which it has one sample.
    """

    test_share: float = 0.2
    minimum: int = 1

    def __post_init__(self) -> None:
        number("test_share", self.test_share, 0, 0.5)
        whole("minimum", self.minimum, 1)

    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        if train.owners is None or test.owners is None:
            raise ConfigError(
                "split.scheme = 'natural': this dataset names no owner of its samples. For a table of your own, "
                'name the column that does: client = "..." in [data]. Otherwise choose another scheme.'
            )
        known, everyone = np.unique(np.concatenate([train.owners, test.owners]), return_inverse=True)
        owner, tester = np.split(everyone, [len(train.labels)])
        number_of = _large(owner, len(known), self.minimum)
        owner, tester = number_of[owner], number_of[tester]
        if (tester == NOBODY).all():
            marked = dealing.stratified(owner, train.labels, self.test_share, random)
            return _with_own_test(train, owner, marked)
        clients = int(owner.max()) + 1
        return Partition(
            dealing.parts(train.positions, owner, clients), dealing.parts(test.positions, tester, clients)
        )


def _with_own_test(train: Samples, owner: Indices, marked: Mask) -> Partition:
    clients = int(owner.max()) + 1
    return Partition(
        dealing.parts(train.positions, np.where(marked, NOBODY, owner), clients),
        dealing.parts(train.positions, np.where(marked, owner, NOBODY), clients),
    )


def _large(owner: Indices, clients: int, minimum: int) -> Indices:
    """The new numbers of the clients when those with too few samples are dropped."""
    sizes = np.bincount(owner[owner != NOBODY], minlength=clients)
    if sizes.max() < minimum:
        raise ConfigError(
            f"no client has the minimum of {minimum} samples: the largest of {clients} has {sizes.max()} "
            f"of {len(owner)}; use fewer clients or a smaller minimum"
        )
    return dealing.renumbered(sizes >= minimum)
