"""What a method sends and keeps: in words from its parts, in numbers from real messages of a small run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from fedskew import tree
from fedskew.algorithm import Algorithm
from fedskew.catalogue import METHODS
from fedskew.data.dataset import Dataset
from fedskew.data.federation import Federation, Training
from fedskew.data.partition import Partition
from fedskew.engines.serial import Serial
from fedskew.method import Method
from fedskew.methods import presets
from fedskew.models.module import from_module
from fedskew.slots import SLOTS
from fedskew.traffic import traffic
from fedskew.values import Model

CLASSES, LABELS, WIDTH = 10, 2, 64


class Cost(NamedTuple):
    """Numbers sent to, sent by and kept by a client, each as a multiple of FedAvg's network."""

    down: float
    up: float
    state: float  # without the trained network, which is kept for evaluation only


class Row(NamedTuple):
    """One line of the table of methods."""

    name: str
    paper: str
    year: int
    about: str
    slots: str
    leaves: str
    down: float
    up: float
    state: float


def rows() -> list[Row]:
    """Every preset with what it is and what it costs."""
    return [
        Row(name, *METHODS[name], slots(method), leaves(method), *cost(method))
        for name, method in presets().items()
    ]


def slots(method: Method) -> str:
    """The slots that differ from FedAvg and the parts in them."""
    default = Method()
    found = {f"term {term.name}" for term in method.terms}
    for slot in SLOTS:
        part = getattr(method, slot)
        if part != getattr(default, slot):
            found.add(f"{slot} {part.name}")
    return ", ".join(sorted(found)) or "none"


def leaves(method: Method) -> str:
    """What leaves a client, in words."""
    counted = ["its number of examples"] if method.aggregate.weighs and method.share.sends else []
    beyond = [part.reveals for part in method.parts if part.reveals]
    return ", ".join(filter(None, [method.share.sends, *counted, *beyond])) or "nothing"


def cost(method: Method) -> Cost:
    """What one client of the second round received, sent and kept, for a network of three layers."""
    federation, bound = _federation(), _bound(method)
    engine, server = Serial(bound, federation, Training(epochs=2, batch=2)), bound.init()
    for round in range(2):
        replies, cohort = engine.exchange(bound.message(server, round), (0,), round)
        assert replies is not None  # there is no gate
        down, up = traffic(bound, server, replies, cohort, engine.feed)
        server = bound.step(server, replies, cohort)
    kept = sum(tree.nbytes(part) for name, part in engine.kept[0].items() if name != "trained")
    whole = tree.nbytes(_bound(Method()).initial)
    return Cost(down / whole, up / whole, kept / whole)


def _bound(method: Method) -> Algorithm:
    return Algorithm(method, method.network.build(_network, CLASSES), population=CLASSES // LABELS)


def _network(outputs: int) -> Model:
    return from_module(
        lambda: nn.Sequential(
            *(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
            *(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs)),
        )
    )


def _federation() -> Federation:
    y = torch.arange(CLASSES).repeat_interleave(2)
    positions = np.arange(len(y))
    own = tuple(np.split(positions, CLASSES // LABELS))
    names = tuple(map(str, range(CLASSES)))
    x = torch.linspace(-1, 1, len(y) * WIDTH).reshape(len(y), WIDTH)
    return Federation(Dataset("ledger", x, y, positions, positions, names), Partition(own, own))
