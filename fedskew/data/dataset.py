"""A labelled pool of examples: what every dataset reader returns and every partition divides."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Indices = NDArray[np.int64]


class Dataset(NamedTuple):
    """One pool of examples with its official train and test positions."""

    name: str
    x: Tensor  # [N, ...] float32, normalised
    y: Tensor  # [N] int64
    train: Indices  # positions in the pool
    test: Indices
    classes: tuple[str, ...]
    owners: Indices | None = None  # natural client of each example (writer, speaker, record)
    clients: tuple[str, ...] = ()  # the owners' names by number; empty where they have none
