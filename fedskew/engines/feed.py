"""From a federation to the clients of a round: batches cut into phases, ragged or padded."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew import keys
from fedskew.algorithm import Algorithm
from fedskew.augment import Draws, draw
from fedskew.data.dataset import Indices
from fedskew.data.federation import Federation, Training
from fedskew.errors import ConfigError
from fedskew.values import Client, Plan


class Piece(NamedTuple):
    """One batch: positions in the pool and how its images are changed."""

    positions: Indices
    draws: Draws | None = None


@dataclass(frozen=True)
class Feed:
    """Makes the `Client` values an algorithm works on."""

    algorithm: Algorithm
    federation: Federation
    training: Training
    x: Tensor  # the pool in the algorithm's precision

    @classmethod
    def of(cls, algorithm: Algorithm, federation: Federation, training: Training) -> "Feed":
        """The feed of this federation, its pool in the algorithm's precision."""
        return cls(algorithm, federation, training, federation.data.x.to(algorithm.dtype))

    def __post_init__(self) -> None:
        if self.training.augment and self.x.ndim != 4:
            shape = "x".join(map(str, self.x.shape[1:]))
            raise ConfigError(
                f"train.augment crops and mirrors images; an example here is {shape}. Set it to 'none'."
            )

    @cached_property
    def black(self) -> Tensor | None:
        """The lowest value of each channel, with which augmented images are padded."""
        return self.x.amin((0, 2, 3)) if self.training.augment else None

    def client(self, round: int, client: int) -> Client:
        """One client with ragged batches."""
        return self._client(client, tuple(_ragged(steps) for steps in self._phases(round, client)))

    def idle(self, client: int) -> Client:
        """The client outside of training: its counts and classes, no batches."""
        return self._client(client, ())

    def block(self, round: int, clients: Sequence[int]) -> Client:
        """Many clients stacked along a leading axis, each phase padded on its own."""
        plans = [self._phases(round, client) for client in clients]
        rows = [self._client(client, ()) for client in clients]
        wide = max(len(row.classes) for row in rows)
        padded = [_widen(row, wide) for row in rows]
        return Client(
            self.x,
            self.federation.data.y,
            torch.stack([row.counts for row in padded]),
            torch.stack([row.classes for row in padded]),
            torch.stack([row.owned for row in padded]),
            tuple(_pad(phase, self.training.batch) for phase in zip(*plans, strict=True)),
            torch.tensor(clients),
            _pad([self._epoch(client) for client in clients], self.training.batch),
            self.black,
        )

    def steps(self, client: int) -> int:
        """How many batches the client has in a round."""
        per_epoch = -(-len(self.federation.partition.train[client]) // self.training.batch)
        return per_epoch * self.training.epochs_for(per_epoch)

    def _client(self, client: int, plans: tuple[Plan, ...]) -> Client:
        counts = self.federation.counts[client]
        classes = counts.nonzero()[:, 0]
        owned = torch.ones_like(classes, dtype=torch.bool)
        epoch = _ragged(self._epoch(client))
        return Client(
            self.x,
            self.federation.data.y,
            counts,
            classes,
            owned,
            plans,
            torch.tensor(client),
            epoch,
            self.black,
        )

    def _epoch(self, client: int) -> list[Piece]:
        own, batch = self.federation.partition.train[client], self.training.batch
        shuffled = own[keys.stream("epoch", self.algorithm.seed, client).permutation(len(own))]
        return [Piece(shuffled[first : first + batch]) for first in range(0, len(own), batch)]

    def _pieces(self, round: int, client: int) -> list[Piece]:
        seed = self.algorithm.seed
        batches = self.federation.batches(seed, round, client, self.training)
        if not self.training.augment:
            return [Piece(batch) for batch in batches]
        random = keys.stream("augment", seed, round, client)
        return [Piece(batch, draw(random, len(batch))) for batch in batches]

    def _phases(self, round: int, client: int) -> list[list[Piece]]:
        batches = self._pieces(round, client)
        per_epoch = -(-len(self.federation.partition.train[client]) // self.training.batch)
        cut = []
        for phase in self.algorithm.phases(round):
            chosen = [batches[i] for i in phase.cut(len(batches), len(batches) // per_epoch)]
            if self.algorithm.model.buffers:
                # A single example has no batch statistics.
                chosen = [step for step in chosen if len(step.positions) > 1]
            cut.append(_grouped(chosen, max(update.step.batches for update in phase.updates)))
        return cut


def _ragged(steps: list[Piece]) -> Plan:
    draws = tuple(step.draws for step in steps if step.draws is not None)
    return Plan(tuple(torch.from_numpy(step.positions) for step in steps), None, draws or None)


def _grouped(steps: list[Piece], width: int) -> list[Piece]:
    """Whole groups of `width` batches; a client with fewer batches than that sees them again."""
    if width == 1 or not steps:
        return steps
    count = max(1, len(steps) // width) * width
    return [steps[i % len(steps)] for i in range(count)]


def _widen(row: Client, wide: int) -> Client:
    missing = wide - len(row.classes)
    classes = torch.cat([row.classes, row.classes[:1].expand(missing)])
    owned = torch.cat([row.owned, torch.zeros(missing, dtype=torch.bool)])
    return row._replace(classes=classes, owned=owned)


def _pad(phase: Sequence[list[Piece]], batch: int) -> Plan:
    longest = max(len(steps) for steps in phase)
    positions = torch.zeros(len(phase), longest, batch, dtype=torch.int64)
    live = torch.zeros(len(phase), longest, batch, dtype=torch.bool)
    offsets = torch.zeros(len(phase), longest, batch, 2, dtype=torch.int64)
    flips = torch.zeros(len(phase), longest, batch, dtype=torch.bool)
    for k, steps in enumerate(phase):
        for s, step in enumerate(steps):
            size = len(step.positions)
            positions[k, s, :size] = torch.from_numpy(step.positions)
            live[k, s, :size] = True
            if step.draws is not None:
                offsets[k, s, :size], flips[k, s, :size] = step.draws
    drawn = any(step.draws is not None for steps in phase for step in steps)
    return Plan(positions, live, Draws(offsets, flips) if drawn else None)
