"""How the rounds of a run become one number. The reducers are named in recipes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from fedskew import metrics
from fedskew.errors import ConfigError, unknown

Reducer = Callable[[Sequence[float]], float]
ALWAYS = ("last", "mean10", "mean20")  # kept for every metric
_TARGET = re.compile(r"rounds_to_(\d+)")


def _sixth(values: Sequence[float]) -> float:
    return metrics.mean_last(values[: max(1, len(values) // 6)])


def _roughness(values: Sequence[float]) -> float:
    half = values[len(values) // 2 :]
    steps = [abs(b - a) for a, b in zip(half, half[1:], strict=False)]
    return math.fsum(steps) / len(steps) if steps else math.nan


def _late_change(values: Sequence[float]) -> float:
    fifth = max(1, len(values) // 5)
    return metrics.mean_last(values, fifth) - metrics.mean_last(values[:-fifth], fifth)


_REDUCERS: dict[str, Reducer] = {
    "last": metrics.last,
    "mean10": lambda values: metrics.mean_last(values, 10),
    "mean20": lambda values: metrics.mean_last(values, 20),
    "first": lambda values: values[0] if values else math.nan,
    "sixth": _sixth,  # what there was after a sixth of the rounds
    "roughness": _roughness,  # mean step between rounds in the second half
    "late_change": _late_change,  # the last fifth less the fifth before it
}


def reducer(name: str) -> Reducer:
    """The reducer of this name; `rounds_to_80` counts the measured rounds until 0.8 is reached."""
    target = _TARGET.fullmatch(name)
    if target:
        return lambda values: _rounds_to(values, int(target[1]) / 100)
    if name not in _REDUCERS:
        raise ConfigError(unknown("reducer", name, [*_REDUCERS, "rounds_to_80"]))
    return _REDUCERS[name]


def _rounds_to(values: Sequence[float], target: float) -> float:
    """One more than there are rounds where the target was not reached: a lower bound."""
    found = metrics.rounds_to_target(values, target)
    return float(len(values) + 1 if found is None else found)
