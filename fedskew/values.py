"""What moves: through vmap, between processes, over the network. Flat dictionaries and NamedTuples only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew.augment import Draws, crop_flip
from fedskew.tree import State, Tree


class Out(NamedTuple):
    """One forward pass; new batch-norm statistics come out, nothing is changed in place."""

    logits: Tensor
    features: Tensor
    buffers: Tree


class Model(NamedTuple):
    """A network as pure functions of a flat tree."""

    init: Callable[[int], Tree]  # seed -> parameters and buffers
    forward: Callable[[Tree, Tensor, bool], Out]  # (tree, x, train)
    layers: tuple[tuple[str, ...], ...]  # names by layer, in the order of the network
    head: tuple[str, ...]  # names of the classifier
    buffers: frozenset[str]  # names that are state, not parameters
    width: int  # length of a feature vector
    classes: int
    draws: bool = False  # whether a forward pass in training is random (dropout)

    @property
    def blocks(self) -> bool:
        """Whether many clients can run at once: no batch statistics, and nothing random of a client's own."""
        return not self.buffers and not self.draws

    @property
    def names(self) -> tuple[str, ...]:
        """Every entry of the tree."""
        return tuple(name for layer in self.layers for name in layer)

    @property
    def trainable(self) -> tuple[str, ...]:
        """Every entry that a gradient moves."""
        return tuple(name for name in self.names if name not in self.buffers)

    @property
    def body(self) -> tuple[str, ...]:
        """Every entry before the classifier."""
        return tuple(name for name in self.names if name not in self.head)

    @property
    def proxies(self) -> str:
        """The weight of the last linear layer, a row for every class."""
        return next(name for name in reversed(self.head) if name.endswith("weight"))


class Plan(NamedTuple):
    """The batches of one phase: positions in the pool, ragged (a step each) or a padded block with a mask."""

    steps: tuple[Tensor, ...] | Tensor  # [S, B] when padded
    live: Tensor | None = None  # [S, B]; None where every position is real
    draws: tuple[Draws, ...] | Draws | None = None  # how each image is cropped and mirrored

    def alive(self) -> Tensor | None:
        """Which steps [S] hold at least one real example; None where all do."""
        return None if self.live is None else self.live.any(-1)


class Client(NamedTuple):
    """A client's view of the pool for one round."""

    x: Tensor  # the whole pool, shared
    y: Tensor
    counts: Tensor  # [C] training examples of each class
    classes: Tensor  # [L] the classes it holds, padded with repeats
    owned: Tensor | None  # [L] False where `classes` is padding; None where nothing is
    plans: tuple[Plan, ...]  # one per phase
    id: Tensor  # the client's number
    epoch: Plan = Plan(())  # one pass over its data, in an order that is the same in every round
    black: Tensor | None = None  # [channels] what augmented images are padded with

    def batch(self, plan: Plan, position: int) -> Batch:
        """The examples of one step."""
        chosen = plan.steps[position]
        live = None if plan.live is None else plan.live[position]
        x = self.x.index_select(0, chosen)  # several times faster than brackets
        if isinstance(plan.draws, Draws):
            x = crop_flip(x, Draws(plan.draws.offsets[position], plan.draws.flips[position]), fill=self.black)
        elif plan.draws is not None:
            x = crop_flip(x, plan.draws[position], fill=self.black)
        return Batch(x, self.y.index_select(0, chosen), live)

    def everything(self) -> Iterator[Batch]:
        """All its examples once."""
        return (self.batch(self.epoch, position) for position in range(len(self.epoch.steps)))


class Batch(NamedTuple):
    """Some examples; `live` masks padding (None: all real)."""

    x: Tensor
    y: Tensor
    live: Tensor | None = None

    def size(self) -> Tensor:
        """How many examples are real."""
        return torch.tensor(len(self.y)) if self.live is None else self.live.sum()

    def mean(self, values: Tensor) -> Tensor:
        """Mean over the real examples of one value each."""
        if self.live is None:
            return values.mean()
        return torch.where(self.live, values, 0.0).sum() / self.live.sum().clamp(min=1)


class View(NamedTuple):
    """The read-only context of a part on a client."""

    model: Model
    params: Tree  # the model's current entries
    received: Tree  # the model's entries at the start of the round
    server: Tree  # what the part broadcast
    client: Tree  # the part's own current entries
    data: Client
    round: int
    rate: float  # this round's learning rate
    expected: float  # participations of a client in the whole run, on average
    shared: tuple[str, ...]  # the model's entries that are averaged
    score: Callable[[Tree], Tensor]  # mean objective of a network over the client's data

    @property
    def pulled(self) -> tuple[str, ...]:
        """Entries that are both averaged and trained: what a pull towards the server can act on."""
        averaged = frozenset(self.shared)
        return tuple(name for name in self.model.trainable if name in averaged)


class Run(NamedTuple):
    """What local training produced."""

    emitted: Tree  # the model's entries that are uploaded
    end: Tree  # all entries when training ended
    steps: Tensor  # optimiser steps up to the emission
    effective_steps: Tensor  # FedNova's a_k
    loss: Tensor  # mean objective over all examples up to the emission


class Reply(NamedTuple):
    """What a client sends; the engine stacks replies along a leading axis in client order."""

    shared: Tree
    extra: State
    samples: Tensor
    steps: Tensor
    effective_steps: Tensor
    loss: Tensor


class Refusal(NamedTuple):
    """A client whose reply did not enter the average, and why."""

    client: int
    reason: str


class Cohort(NamedTuple):
    """Who answered, in the order of the stacked replies."""

    ids: tuple[int, ...]
    population: int
    round: int
    refused: tuple[Refusal, ...] = ()
    rate: float = math.nan  # the learning rate of the round
