"""Schemes in which each client keeps a part of its own data as its test."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fedskew.data.partition import dealing
from fedskew.data.partition.base import TRIES, Partition, Samples, Scheme, enough_classes, number, whole
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
        owns = self.ownership(train.totals, random)
        weight = owns / owns.sum(axis=1, keepdims=True) * random.lognormal(0, self.sigma, (self.clients, 1))
        wish = np.round(weight / np.where(owns.any(axis=0), weight.sum(axis=0), 1) * train.totals).astype(
            np.int64
        )
        edges = np.minimum(np.cumsum(wish, axis=0), train.totals)
        owner = dealing.hand_out(train.labels, dealing.between(edges), random)
        owner = _enough(owner, self.minimum)
        return _with_own_test(train, owner, dealing.sample(owner, self.test_share, random))

    def ownership(self, totals: Indices, random: Generator) -> Mask:
        """Which client has which class, [K, C]: drawn until every class of the data has an owner."""
        classes, needed = len(totals), int((totals > 0).sum())
        most = classes if self.classes_per_client is None else self.classes_per_client
        enough_classes(classes, most)
        wish = f"{self.clients} clients x at most {most} classes for {needed} classes"
        if self.clients * most < needed:
            raise ConfigError(
                f"{wish} leave some without an owner; use more clients or more classes per client"
            )
        least = min(2, classes) if self.classes_per_client is None else self.classes_per_client
        for _ in range(TRIES):
            many = random.integers(least, most, size=self.clients, endpoint=True)
            owns = dealing.pick(random.random((self.clients, classes)), many)
            if (owns.sum(axis=0) > 0)[totals > 0].all():
                return owns
        raise ConfigError(f"{wish}: {TRIES} draws all left a class without an owner; use more clients")


@dataclass(frozen=True)
class Natural(Scheme):
    """One client for each owner (writer, speaker, patient); a share of each of its classes is its test.

    A class of which a client has one sample is for training; too small clients are dropped.
    """

    test_share: float = 0.2
    minimum: int = 1

    def __post_init__(self) -> None:
        number("test_share", self.test_share, 0, 0.5)
        whole("minimum", self.minimum, 1)

    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        if train.owners is None:
            raise ConfigError(
                "the natural partition needs a dataset that names the owner of each sample; this does not"
            )
        owner = _enough(np.unique(train.owners, return_inverse=True)[1].astype(np.int64), self.minimum)
        return _with_own_test(train, owner, dealing.stratified(owner, train.labels, self.test_share, random))


def _with_own_test(train: Samples, owner: Indices, marked: Mask) -> Partition:
    clients = int(owner.max()) + 1
    return Partition(
        dealing.parts(train.positions, np.where(marked, NOBODY, owner), clients),
        dealing.parts(train.positions, np.where(marked, owner, NOBODY), clients),
    )


def _enough(owner: Indices, minimum: int) -> Indices:
    kept = dealing.without_small(owner, minimum)
    if kept.max() == NOBODY:
        most = int(np.bincount(owner + 1)[1:].max(initial=0))
        raise ConfigError(
            f"no client has the minimum of {minimum} samples: the largest has {most} of {len(owner)}; "
            "use fewer clients or a smaller minimum"
        )
    return kept
