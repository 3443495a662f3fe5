"""Values over rounds, and their band over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from fedskew import stats
from fedskew.report.figure import Key, View, thin, tidy
from fedskew.report.gather import Seen
from fedskew.report.study import Arm

Series = dict[int, float]  # round -> value


class Band(NamedTuple):
    """Mean over seeds with one standard deviation to either side."""

    rounds: list[int]
    mean: list[float]
    std: list[float]  # 0 where there is one seed


def values(run: Seen, metric: str) -> Series:
    """What was measured, by round."""
    return {
        record["round"]: float(record[metric]) for record in run.records if record.get(metric) is not None
    }


def rounds(run: Seen) -> Series:
    """How many rounds were done after each round."""
    return {record["round"]: float(record["round"] + 1) for record in run.records}


def traffic(run: Seen) -> Series:
    """Bytes sent in both directions up to and with each round."""
    sent = [float(r.get("bytes.down", 0)) + float(r.get("bytes.up", 0)) for r in run.records]
    return dict(zip([r["round"] for r in run.records], accumulate(sent), strict=True))


def seconds(run: Seen) -> Series:
    """Time spent up to and with each round; a round whose time was lost counts as the mean of the others."""
    known = {e["round"]: float(e["seconds"]) for e in run.events if e["event"] == "round" and "seconds" in e}
    if not known:
        return {}
    usual = math.fsum(known.values()) / len(known)
    numbers = [record["round"] for record in run.records]
    return dict(zip(numbers, accumulate(known.get(n, usual) for n in numbers), strict=True))


def band(series: Sequence[Series]) -> Band:
    """Mean and deviation over the seeds that have a value."""
    found: dict[int, list[float]] = {}
    for one in series:
        for number, value in one.items():
            found.setdefault(number, []).append(value)
    numbers = sorted(found)
    made = [stats.summarise(found[number]) for number in numbers]
    return Band(numbers, [m.mean for m in made], [0.0 if math.isnan(m.std) else m.std for m in made])


def curve(
    arm: Arm, look: Key, what: Callable[[Seen], Series], along: Callable[[Seen], Series], scale: float = 100.0
) -> list[View]:
    """A line and its band for one method; it ends where a seed diverged, since the others alone are no mean."""
    found, line = band([what(run) for run in arm.runs]), band([along(run) for run in arm.runs])
    where = dict(zip(line.rounds, line.mean, strict=True))
    end = min((run.rounds for run in arm.runs if run.diverged), default=math.inf)
    kept = [i for i in thin(len(found.rounds)) if found.rounds[i] in where and found.rounds[i] < end]
    if not kept:
        return []
    x = [tidy(where[found.rounds[i]]) for i in kept]
    middle = [tidy(found.mean[i], scale) for i in kept]
    low = [tidy(found.mean[i] - found.std[i], scale) for i in kept]
    high = [tidy(found.mean[i] + found.std[i], scale) for i in kept]
    shown = {"color": look.colour, "dash": look.dash, "width": 2}
    mode = "lines+markers" if len(kept) <= 30 else "lines"
    line_trace = {
        "x": x,
        "y": middle,
        "mode": mode,
        "line": shown,
        "marker": {"symbol": look.symbol, "size": 6},
    }
    traces = [] if low == high else [_filled(x, low, high, look)]
    return [*traces, {**line_trace, "type": "scatter", "name": arm.label, "meta": arm.label}]


def _filled(x: list[Any], low: list[Any], high: list[Any], look: Key) -> View:
    return {
        "type": "scatter",
        "x": [*x, *reversed(x)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": f"{look.colour}22",
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "meta": look.label,
    }


def last_records(run: Seen) -> Mapping[str, Any]:
    """The newest value of everything that was measured."""
    out: dict[str, Any] = {}
    for record in run.records:
        out |= record
    return out
