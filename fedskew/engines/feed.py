"""From a federation to the clients of a round: batches cut into phases, ragged or padded."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
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

    @cached_property
    def _epochs(self) -> dict[int, list[Piece]]:
        return {}

    def client(self, round: int, client: int) -> Client:
        """One client with ragged batches."""
        return self._client(client, tuple(_ragged(steps) for steps in self._phases(round, client)))

    def idle(self, client: int) -> Client:
        """The client outside of training: its counts and classes, no batches."""
        return self._client(client, ())

    def block(self, round: int, clients: Sequence[int]) -> Client:
        """Many clients stacked along a leading axis, each phase padded on its own."""
        plans = [self._phases(round, client) for client in clients]
        counts = self.federation.counts[list(clients)]
        held = [row.nonzero()[:, 0] for row in counts]
        wide = max(map(len, held))
        return Client(
            self.x,
            self.federation.data.y,
            counts,
            torch.stack([torch.cat([own, own[:1].expand(wide - len(own))]) for own in held]),
            torch.stack([torch.arange(wide) < len(own) for own in held]),
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
        epoch = _ragged(self._epoch(client))
        return Client(
            self.x,
            self.federation.data.y,
            counts,
            classes,
            None,
            plans,
            torch.tensor(client),
            epoch,
            self.black,
        )

    def _epoch(self, client: int) -> list[Piece]:
        if client not in self._epochs:  # it is the same in every round
            self._epochs[client] = self._one_pass(client)
        return self._epochs[client]

    def _one_pass(self, client: int) -> list[Piece]:
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


def _pad(phase: Sequence[list[Piece]], batch: int) -> Plan:
    longest = max(len(steps) for steps in phase)
    sizes = np.zeros((len(phase), longest, 1), dtype=np.int64)
    for row, steps in zip(sizes, phase, strict=True):
        row[: len(steps), 0] = [len(step.positions) for step in steps]
    live = np.arange(batch) < sizes
    positions = np.zeros(live.shape, dtype=np.int64)
    pieces = [step for steps in phase for step in steps]
    if pieces:
        positions[live] = np.concatenate([step.positions for step in pieces])
    mask = torch.from_numpy(live)
    return Plan(torch.from_numpy(positions), mask, _padded_draws([step.draws for step in pieces], mask))


def _padded_draws(drawn: Sequence[Draws | None], live: Tensor) -> Draws | None:
    real = [draws for draws in drawn if draws is not None]
    if not real:
        return None
    offsets = torch.zeros(*live.shape, 2, dtype=torch.int64)
    flips = torch.zeros_like(live)
    offsets[live] = torch.cat([draws.offsets for draws in real])
    flips[live] = torch.cat([draws.flips for draws in real])
    return Draws(offsets, flips)
