"""Eight clients, four classes, 3 x 3 pictures: small, unequal, skewed, and one client with a single label."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from fedskew.data.dataset import Dataset
from fedskew.data.federation import Federation, Training
from fedskew.data.partition import Partition

COUNTS = (
    (6, 5, 0, 0),
    (0, 4, 3, 0),
    (0, 0, 6, 0),
    (3, 3, 3, 4),
    (0, 0, 2, 7),
    (1, 0, 8, 0),
    (0, 2, 0, 2),
    (5, 0, 0, 5),
)
SINGLE_LABEL = 2
CLASSES = 4
TRAINING = Training(epochs=2, batch=5)
ROUNDS = 3
RATIO = 0.5


@cache
def federation() -> Federation:
    """The pool and its owners; no local tests."""
    random = np.random.default_rng(1)
    labels = np.array([label for row in COUNTS for label, n in enumerate(row) for _ in range(n)])
    centres = random.normal(size=(CLASSES, 1, 3, 3))
    x = torch.from_numpy(centres[labels] + random.normal(size=(len(labels), 1, 3, 3)))
    ends = np.cumsum([sum(row) for row in COUNTS])
    train = tuple(np.split(np.arange(len(labels)), ends[:-1]))
    nothing = np.array([], dtype=np.int64)
    names = tuple(map(str, range(CLASSES)))
    data = Dataset("tiny", x.float(), torch.from_numpy(labels), np.arange(len(labels)), nothing, names)
    return Federation(data, Partition(train, tuple(nothing for _ in COUNTS)))


class Skew(NamedTuple):
    """What the setting must hold so that the references can tell right from wrong."""

    one_label: bool  # the client with a single label takes part
    again: bool  # it or another takes part more than once, with a pause
    left_out: bool  # somebody never takes part
    untrained: bool  # in some round nobody holds a class that was trained before
    one_example: bool  # a batch of one example occurs
    first_is_short: bool  # the first participant of the last round takes fewer steps than another


def skew(seed: int) -> Skew:
    """What of this the participants drawn with this seed show."""
    chosen = [federation().participants(seed, t, RATIO) for t in range(ROUNDS)]
    seen = [
        {c for k in drawn if k != SINGLE_LABEL for c in range(CLASSES) if COUNTS[k][c]} for drawn in chosen
    ]
    sizes = [sum(COUNTS[k]) % TRAINING.batch for drawn in chosen for k in drawn]
    batches = [
        (sum(COUNTS[k]) + TRAINING.batch - 2) // TRAINING.batch for k in chosen[-1]
    ]  # without single ones
    return Skew(
        any(SINGLE_LABEL in drawn for drawn in chosen),
        any(k in chosen[2] and k not in chosen[1] for k in chosen[0]),
        len({k for drawn in chosen for k in drawn}) < len(COUNTS),
        any(seen[s] - seen[t] for t in range(ROUNDS) for s in range(t)),
        1 in sizes,
        batches[0] < max(batches),
    )


SEED = next(seed for seed in range(1000) if all(skew(seed)))
DRAWN = frozenset(k for t in range(ROUNDS) for k in federation().participants(SEED, t, RATIO))
LONGEST = max(DRAWN, key=lambda k: sum(COUNTS[k]))
NEVER_DRAWN = next(k for k in range(len(COUNTS)) if k not in DRAWN)


def perceptron(outputs: int) -> nn.Module:
    """Two hidden layers; smooth, so that rounding cannot flip a unit."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, outputs)
    )


def normalised(outputs: int) -> nn.Module:
    """A convolution and a hidden layer, both with batch-norm."""
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten()),
        *(nn.Linear(12, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, outputs)),
    )


NETWORKS: dict[str, Callable[[int], nn.Module]] = {"perceptron": perceptron, "batch-norm": normalised}
