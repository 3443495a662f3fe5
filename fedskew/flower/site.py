"""Where examples come from: the configuration's dataset dealt to clients, or what lies at each client."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew import build
from fedskew.config import Config, parse
from fedskew.data.dataset import Dataset
from fedskew.data.federation import Federation
from fedskew.data.partition import Partition
from fedskew.errors import DataError

Load = Callable[[Config, int | None], Federation]  # of a client; None: of the server


def simulated(config: Config, client: int | None) -> Federation:
    """The configuration's own dataset and split, the same at every node: for trials on one machine."""
    return _dealt(config.toml())


@cache
def _dealt(text: str) -> Federation:
    config = parse(tomllib.loads(text), "the configuration")
    experiment = build.experiment(config)
    return experiment.federation(experiment.dataset(), config.seeds[0])


def own(
    client: int | None,
    clients: int,
    classes: Sequence[str],
    train: tuple[NDArray[Any], NDArray[Any]],
    test: tuple[NDArray[Any], NDArray[Any]],
) -> Federation:
    """The examples (x, y) that lie here: of one of so many clients, or for the server's test (client None).

    y holds positions in `classes`, which must be the same everywhere; so must the scale of x.
    """
    x = torch.from_numpy(np.concatenate([train[0], test[0]]).astype(np.float32))
    y = torch.from_numpy(np.concatenate([train[1], test[1]]).astype(np.int64))
    if len(x) != len(y) or not bool(torch.isfinite(x).all()):
        raise DataError(
            "the examples of this client: x and y differ in length, or x is not finite everywhere."
        )
    if len(y) and not 0 <= int(y.min()) <= int(y.max()) < len(classes):
        raise DataError(f"the examples of this client: y must be from 0 to {len(classes) - 1}.")
    if client is not None and not len(train[1]):
        raise DataError("the examples of this client: there is none to train on.")
    nothing = np.zeros(0, dtype=np.int64)
    here, held_out = np.arange(len(train[1])), np.arange(len(train[1]), len(y))
    parts = tuple(here if k == client else nothing for k in range(clients))
    tests = tuple(held_out if k == client else nothing for k in range(clients))
    return Federation(Dataset("own", x, y, here, held_out, tuple(classes)), Partition(parts, tests))
