"""From a federation to the clients of a round: batches cut into phases, ragged or padded."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedskew import keys
from fedskew.algorithm import Algorithm
from fedskew.data.dataset import Indices
from fedskew.data.federation import Federation, Training
from fedskew.values import Client, Plan


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
            self.x, self.federation.data.y, counts, classes, owned, plans, torch.tensor(client), epoch
        )

    def _epoch(self, client: int) -> list[Indices]:
        own, batch = self.federation.partition.train[client], self.training.batch
        shuffled = own[keys.stream("epoch", self.algorithm.seed, client).permutation(len(own))]
        return [shuffled[first : first + batch] for first in range(0, len(own), batch)]

    def _phases(self, round: int, client: int) -> list[list[Indices]]:
        batches = self.federation.batches(self.algorithm.seed, round, client, self.training)
        per_epoch = -(-len(self.federation.partition.train[client]) // self.training.batch)
        cut = []
        for phase in self.algorithm.phases(round):
            chosen = [batches[i] for i in phase.cut(len(batches), len(batches) // per_epoch)]
            if self.algorithm.model.buffers:
                # A single example has no batch statistics.
                chosen = [step for step in chosen if len(step) > 1]
            cut.append(_grouped(chosen, max(update.step.batches for update in phase.updates)))
        return cut


def _ragged(steps: list[Indices]) -> Plan:
    return Plan(tuple(torch.from_numpy(step) for step in steps))


def _grouped(steps: list[Indices], width: int) -> list[Indices]:
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


def _pad(phase: Sequence[list[Indices]], batch: int) -> Plan:
    longest = max(len(steps) for steps in phase)
    positions = torch.zeros(len(phase), longest, batch, dtype=torch.int64)
    live = torch.zeros(len(phase), longest, batch, dtype=torch.bool)
    for k, steps in enumerate(phase):
        for s, step in enumerate(steps):
            positions[k, s, : len(step)] = torch.from_numpy(step)
            live[k, s, : len(step)] = True
    return Plan(positions, live)
