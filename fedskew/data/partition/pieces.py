"""Schemes that hand out pieces of the training set; the test is cut like the counts that came out."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fedskew.data.partition import dealing
from fedskew.data.partition.base import (
    Partition,
    Samples,
    Scheme,
    enough_classes,
    enough_samples,
    flag,
    whole,
)
from fedskew.data.partition.dealing import NOBODY, Indices, Mask
from fedskew.errors import ConfigError


@dataclass(frozen=True)
class IID(Scheme):
    """Random parts of near-equal size."""

    clients: int

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1)

    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        enough_samples(train, self.clients)
        n = len(train.labels)
        owner = np.empty(n, dtype=np.int64)
        owner[random.permutation(n)] = np.arange(n) * self.clients // n
        return _with_matched_test(train, test, owner, self.clients, random)


@dataclass(frozen=True)
class Shards(Scheme):
    """The samples sorted by label and cut in equal shards, alpha for each client (McMahan et al., 2017).

    The remainder is dropped. With `distinct` a client gets alpha different labels (NIID-Bench, "#label").
    """

    alpha: int
    clients: int
    distinct: bool = False

    def __post_init__(self) -> None:
        whole("alpha", self.alpha, 1)
        whole("clients", self.clients, 1)
        flag("distinct", self.distinct)

    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        enough_samples(train, self.clients)
        owner = self._labels(train, random) if self.distinct else self._shards(train, random)
        return _with_matched_test(train, test, owner, self.clients, random)

    def _shards(self, train: Samples, random: Generator) -> Indices:
        shards = self.clients * self.alpha
        size = len(train.labels) // shards
        if size == 0:
            raise ConfigError(
                f"{self.clients} clients x {self.alpha} shards = {shards} shards, "
                f"but there are only {len(train.labels)} samples; use fewer clients or a smaller alpha"
            )
        owner = np.full(len(train.labels), NOBODY, dtype=np.int64)
        taker = random.permutation(shards) // self.alpha
        owner[np.argsort(train.labels, kind="stable")[: shards * size]] = np.repeat(taker, size)
        return owner

    def _labels(self, train: Samples, random: Generator) -> Indices:
        enough_classes(train, self.alpha)
        present, client = train.totals > 0, np.arange(self.clients)
        keys = random.random((self.clients, present.sum()))
        # The first label goes round, so that each has an owner where there are enough clients.
        keys[client, client % present.sum()] = -1
        sizes = dealing.even(dealing.widened(dealing.pick(keys, self.alpha), present), train.totals)
        return dealing.hand_out(train.labels, sizes, random)


@dataclass(frozen=True)
class Labels(Scheme):
    """Each label in equally many near-equal parts, and for each client parts of l labels (FedOVA)."""

    per_client: int
    clients: int

    def __post_init__(self) -> None:
        whole("per_client", self.per_client, 1)
        whole("clients", self.clients, 1)

    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        enough_samples(train, self.clients)
        enough_classes(train, self.per_client)
        present = train.totals > 0
        holds = dealing.widened(self.ownership(int(present.sum()), random), present)
        owner = dealing.hand_out(train.labels, dealing.even(holds, train.totals), random)
        return _with_matched_test(train, test, owner, self.clients, random)

    def ownership(self, classes: int, random: Generator) -> Mask:
        """Which client gets a part of which label, [K, C]."""
        wish = f"{self.per_client} labels x {self.clients} clients = {self.per_client * self.clients} parts"
        each = self.per_client * self.clients / classes
        if not each.is_integer():
            raise ConfigError(f"{wish} / {classes} classes = {each:.2f}, no whole number; change either")
        # To hold most labels is to lack few: the fewer are dealt, the sooner the duplicates are gone.
        few = min(self.per_client, classes - self.per_client)
        client = np.repeat(np.arange(self.clients), few)
        dealt = random.permutation(np.arange(few * self.clients) % classes)
        held = dealing.distinct(dealing.tally(client, dealt, (self.clients, classes)), random)
        return held if few == self.per_client else ~held


def _with_matched_test(
    train: Samples, test: Samples, owner: Indices, clients: int, random: Generator
) -> Partition:
    counts = dealing.tally(owner, train.labels, (clients, len(train.totals)))
    tester = dealing.hand_out(test.labels, dealing.matched(counts, test.totals), random)
    return Partition(
        dealing.parts(train.positions, owner, clients), dealing.parts(test.positions, tester, clients)
    )
