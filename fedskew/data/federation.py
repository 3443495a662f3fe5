"""A pool of examples and who owns what: the data side of a round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fedskew import keys
from fedskew.data import markup
from fedskew.data.dataset import Dataset, Indices
from fedskew.data.partition import Partition
from fedskew.ranges import Count, Natural, enforce


@dataclass(frozen=True)
class Federation:
    """One pool tensor; clients are lists of positions in it."""

    data: Dataset
    partition: Partition
    handed_out: int = 0  # examples that every client was sent before the first round

    def __repr__(self) -> str:
        train, test = (sum(map(len, parts)) for parts in (self.partition.train, self.partition.test))
        return f"Federation of {self.clients} clients: {train} training, {test} test examples of {self.classes} classes"

    @property
    def clients(self) -> int:
        """All clients, novel ones included."""
        return len(self.partition.train)

    @property
    def classes(self) -> int:
        return len(self.data.classes)

    @cached_property
    def trainers(self) -> tuple[int, ...]:
        """Clients that may take part in training."""
        novel = frozenset(self.partition.novel)
        return tuple(k for k in range(self.clients) if k not in novel)

    @cached_property
    def counts(self) -> Tensor:
        """[K, C] training examples of each class at each client."""
        labels = self.data.y.numpy()
        rows = [np.bincount(labels[part], minlength=self.classes) for part in self.partition.train]
        return torch.from_numpy(np.stack(rows).astype(np.int64))

    def _repr_html_(self) -> str:
        """Who holds what, for notebooks."""
        return markup.holdings(self.counts.numpy(), self.data.classes, self.partition.novel)

    def participants(self, seed: int, round: int, ratio: float) -> tuple[int, ...]:
        """Who takes part in this round."""
        drawn = keys.participants(seed, round, len(self.trainers), ratio)
        return tuple(self.trainers[k] for k in drawn)

    def batches(self, seed: int, round: int, client: int, training: Training) -> list[Indices]:
        """The client's batches of this round as positions in the pool, epoch after epoch."""
        own = self.partition.train[client]
        per_epoch = -(-len(own) // training.batch)
        epochs = training.epochs_for(per_epoch)
        orders = keys.orders(seed, round, client, len(own), epochs)
        return [own[o[i : i + training.batch]] for o in orders for i in range(0, len(own), training.batch)]


@dataclass(frozen=True)
class Training:
    """How much a client trains in a round."""

    epochs: Count = 5
    batch: Count = 64
    min_steps: Natural = 0  # more epochs where a client has too few batches
    augment: bool = False  # images are cropped (padding 4) and mirrored at random

    def __post_init__(self) -> None:
        enforce(self)

    def epochs_for(self, per_epoch: int) -> int:
        """Epochs of a client with this many batches an epoch."""
        return max(self.epochs, -(-self.min_steps // per_epoch))


def with_shared_data(federation: Federation, share: float, seed: int) -> Federation:
    """Every client also holds the same random examples, `share` of a mean client in number (Zhao et al., 2018).

    Owners keep theirs, so an owner of a shared example sees it twice.
    """
    owned = [federation.partition.train[k] for k in federation.trainers]
    count = max(1, int(share * float(np.mean([len(part) for part in owned])) + 0.5))
    pool = np.concatenate(owned)
    drawn = keys.stream("share", seed).choice(pool, size=count, replace=False)
    train = tuple(np.concatenate([part, drawn]) for part in federation.partition.train)
    return Federation(federation.data, federation.partition._replace(train=train), count)


def centralised(federation: Federation) -> Federation:
    """One client that holds everybody's examples: an upper bound for every federated method."""
    partition = federation.partition
    train = np.unique(np.concatenate([partition.train[k] for k in federation.trainers]))
    test = np.unique(np.concatenate([partition.test[k] for k in federation.trainers]))
    return Federation(federation.data, Partition((train,), (test,)))
