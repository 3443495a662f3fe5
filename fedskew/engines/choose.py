"""Which engine runs the clients."""

from dataclasses import dataclass, replace
from typing import Literal

from fedskew.algorithm import Algorithm
from fedskew.engines.engine import Engine
from fedskew.engines.feed import Feed
from fedskew.engines.serial import Serial
from fedskew.engines.vectorised import Vectorised
from fedskew.gate import Gate, Limits


@dataclass(frozen=True)
class Choice:
    """An engine and its settings; `auto` measures and picks."""

    name: Literal["auto", "serial", "vectorised", "pool", "ray"] = "auto"
    workers: int = 0
    block: int = 10
    backend: Literal["auto", "autograd", "torch", "native"] = "auto"


def resolve(choice: Choice, algorithm: Algorithm, feed: Feed) -> Choice:
    """The choice with `auto` replaced by what suits this run."""
    return replace(choice, name="serial") if choice.name == "auto" else choice


def engine(choice: Choice, algorithm: Algorithm, feed: Feed, limits: Limits | None = None) -> Engine:
    """The engine of this choice, with a gate where there are limits."""
    gate = None if limits is None else Gate.of(algorithm, feed.x.shape[1:], limits)
    if choice.name == "vectorised":
        return Vectorised(algorithm, feed.federation, feed.training, choice.block, gate)
    return Serial(algorithm, feed.federation, feed.training, gate)
