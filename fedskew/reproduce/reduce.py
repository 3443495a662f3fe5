"""How the rounds of a run become one number, by name. Nothing here imports torch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from fedskew.errors import ConfigError, unknown

Reducer = Callable[[Sequence[float]], float]
ALWAYS = ("last", "mean10", "mean20")  # kept for every metric
_TARGET = re.compile(r"rounds_to_(\d+)")
_ROUND = re.compile(r"round_(\d+)")


def mean(values: Sequence[float]) -> float:
    """The mean of those that are numbers; nan if none is."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def _sixth(values: Sequence[float]) -> float:
    return mean(values[: max(1, len(values) // 6)][-max(1, len(values) // 20) :])


def _roughness(values: Sequence[float]) -> float:
    return mean([abs(b - a) for a, b in pairwise(values[len(values) // 2 :])])


def _late_change(values: Sequence[float]) -> float:
    fifth = max(1, len(values) // 5)
    return mean(values[-fifth:]) - mean(values[-2 * fifth : -fifth])


_REDUCERS: dict[str, Reducer] = {
    "last": lambda values: values[-1] if values else math.nan,
    "mean10": lambda values: mean(values[-10:]),
    "mean20": lambda values: mean(values[-20:]),
    "first": lambda values: values[0] if values else math.nan,
    "sixth": _sixth,  # what there was after a sixth of the rounds
    "roughness": _roughness,  # mean step between rounds in the second half
    "late_change": _late_change,  # the last fifth less the fifth before it
}


def named_round(name: str) -> int | None:
    """The round, from 1, whose value `round_3` takes; None for a name that reduces many rounds."""
    found = _ROUND.fullmatch(name)
    return int(found[1]) if found else None


def reducer(name: str) -> Reducer:
    """The reducer of this name; `rounds_to_80` counts the measured rounds until 0.8 is reached."""
    target = _TARGET.fullmatch(name)
    if target:
        return lambda values: _rounds_to(values, int(target[1]) / 100)
    if name not in _REDUCERS:
        raise ConfigError(unknown("reducer", name, [*_REDUCERS, "rounds_to_80", "round_3"]))
    return _REDUCERS[name]


def _rounds_to(values: Sequence[float], target: float) -> float:
    """One more than there are rounds where the target was not reached, which is a lower bound."""
    if not values:
        return math.nan
    reached = (number for number, value in enumerate(values, 1) if value >= target)
    return float(next(reached, len(values) + 1))
