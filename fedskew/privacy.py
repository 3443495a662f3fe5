"""Differential privacy of a client's whole data: changes are clipped and noise is added, with an account kept.

Central (McMahan et al., 2018): the server sees replies, and what it makes of them is noisy. Local: noise is added
before a reply leaves its client. Noise is calibrated to `sensitivity`, in the norm of the change of all shared
entries together. Participants are drawn with a seed that is no secret, so that nothing is gained by sampling:
a client's epsilon grows with every round that asks it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal

import numpy as np
import torch

from fedskew import keys, tree
from fedskew.algorithm import Algorithm
from fedskew.errors import ConfigError
from fedskew.ranges import Positive, Probability, enforce
from fedskew.tree import Tree
from fedskew.values import Cohort, Reply

SERVER = -1  # whose noise it is, where it is not a client's


@dataclass(frozen=True)
class Privacy:
    """How much of a client's change is let through, and how much noise is put on it."""

    kind: Literal["central", "local"]
    clip: Positive = 1.0
    noise: Positive = 1.0
    delta: Probability = 1e-5
    secret: bool = False  # noise from the system's entropy: nobody can subtract it, or repeat the run

    def __post_init__(self) -> None:
        enforce(self)

    @property
    def sensitivity(self) -> float:
        """How far one client can move what is released: its change against none, or against any other."""
        return self.clip if self.kind == "central" else 2 * self.clip

    def check(self, algorithm: Algorithm) -> None:
        """Refuses a method that sends, or needs, what clipping and noise do not cover."""
        method = algorithm.method
        if not algorithm.shared:
            raise ConfigError(
                "privacy: this method shares no parameters, so that there is nothing to protect."
            )
        for part in method.parts:
            if part.reveals:
                raise ConfigError(f"privacy: {part.name} reveals {part.reveals}, which no noise covers.")
        if method.aggregate.weighs:
            raise ConfigError(
                f"privacy: {method.aggregate.name} weighs clients by their numbers of examples, which are "
                "private and have no limit. Set method.weight = 'uniform'."
            )
        if buffers := [name for name in algorithm.shared if name in algorithm.model.buffers]:
            raise ConfigError(
                f"privacy: {buffers[0]} is a statistic of batch-norm and no parameter; keep such entries at "
                "home with [method.Everything] buffers = 'local', or take a network without batch-norm."
            )

    def epsilon(self, times: int) -> float:
        """What a client has spent that was asked so many times, by the Rényi accountant of Opacus."""
        from opacus.accountants import RDPAccountant

        accountant = RDPAccountant()
        accountant.history = [(self.noise, 1.0, times)]
        return float(accountant.get_epsilon(self.delta))

    def sent(self, reply: Reply, before: Tree, seed: int, round: int, client: int) -> Reply:
        """What leaves a client under local privacy: a clipped and noisy change, and no other number."""
        hidden = _noise(before, self.sensitivity * self.noise, self._generator(seed, round, client))
        shared = moved(reply.shared, before, self.clip, hidden)
        blank = (torch.zeros_like(getattr(reply, name)) for name in Reply._fields[3:])
        return Reply(shared, {}, torch.ones_like(reply.samples), *blank)

    def released(self, replies: Reply, before: Tree, cohort: Cohort, seed: int) -> Reply:
        """Stacked replies whose uniform mean is the one of the clipped changes plus noise, drawn once."""
        count = len(cohort.ids)
        generator = self._generator(seed, cohort.round, SERVER)
        hidden = _noise(before, self.sensitivity * self.noise / count, generator)
        each = [moved(tree.row(replies.shared, k), before, self.clip, hidden) for k in range(count)]
        return replies._replace(shared=tree.stack(each))

    def _generator(self, seed: int, round: int, client: int) -> np.random.Generator:
        return np.random.default_rng() if self.secret else keys.stream("noise", seed, round, client + 1)


@dataclass
class Account:
    """What clients have spent, by how often each was asked."""

    privacy: Privacy
    drawn: Callable[[int], Sequence[int]]  # round -> who was asked
    _asked: Counter[int] = field(default_factory=Counter)
    _rounds: int = 0

    def __post_init__(self) -> None:
        if find_spec("opacus") is None:
            raise ConfigError("privacy needs Opacus: pip install 'fedskew[privacy]'.")

    def record(self, round: int) -> dict[str, float]:
        """The epsilon of the client that was asked most often; of losses, which were not sent, there is no mean."""
        for past in range(self._rounds, round + 1):
            self._asked.update(self.drawn(past))
        self._rounds = round + 1
        spent = {"privacy.epsilon": self.privacy.epsilon(max(self._asked.values()))}
        hidden = ("train.loss", "train.max_loss") if self.privacy.kind == "local" else ()
        return {**spent, **dict.fromkeys(hidden, math.nan)}


def moved(sent: Tree, before: Tree, clip: float, noise: Tree) -> Tree:
    """The entries before, plus a change of norm `clip` at most, plus noise; in double precision until the end."""
    change = {name: value.double() - before[name].double() for name, value in sent.items()}
    length = math.sqrt(math.fsum(float(value.square().sum()) for value in change.values()))
    if not math.isfinite(length):  # what a broken client has done to its network does not count
        change, length = tree.zeros(change), 0.0
    factor = clip / length if length > clip else 1.0
    return {
        name: (before[name].double() + factor * change[name] + noise[name]).to(value.dtype)
        for name, value in sent.items()
    }


def _noise(like: Tree, deviation: float, generator: np.random.Generator) -> Tree:
    """Gaussian noise for every entry, in the order of the tree."""
    return {
        name: torch.from_numpy(generator.normal(0.0, deviation, tuple(value.shape)))
        for name, value in like.items()
    }
