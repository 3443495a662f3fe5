"""Writes the measured tables into docs/performance.md, between their markers.

python benchmarks/tables.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
TABLES = {
    "race": "bench.json",
    "presets": "presets.json",
    "scaling": "scaling.json",
    "commands": "commands.json",
    "subnormals": "subnormals.json",
}
Row = dict[str, object]


def table(rows: Sequence[Row]) -> str:
    """Rows with the same keys as a Markdown table."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join(lines + [f"| {' | '.join(_shown(row.get(key)) for key in columns)} |" for row in rows])


def by_method(rows: Sequence[Row]) -> list[Row]:
    """One row for every preset, the networks beside each other."""
    found: dict[object, Row] = {}
    for row in rows:
        made = found.setdefault(
            row["method"], {key: row[key] for key in ("method", "gradients", "other passes")}
        )
        made[f"{row['network']}: a round"] = row["times FedAvg's round"]
        made[f"{row['network']}: a gradient"] = row["times FedAvg's gradient"]
        made[f"{row['network']}: passes counted"] = row["times FedAvg's passes"]
    return list(found.values())


def filled(text: str, name: str, content: str) -> str:
    """The text with what is between the markers of this name replaced."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if start not in text or end not in text:
        raise ValueError(f"{PAGE.name} has no part {name}")
    before, rest = text.split(start, 1)
    return f"{before}{start}\n{content}\n\n{end}{rest.split(end, 1)[1]}"


def _shown(value: object) -> str:
    if isinstance(value, float) and abs(value) >= 1000:
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:.0f}" if value == int(value) and abs(value) >= 10 else f"{value:.3g}"
    return "" if value is None else str(value)


def page(text: str) -> str:
    """The page with what has been measured filled in."""
    for name in TABLES:
        rows = measured(name)
        text = filled(text, name, table(by_method(rows) if name == "presets" else rows))
    return filled(text, "asked", table(asked()))


def measured(name: str) -> list[Row]:
    """The rows that a benchmark has written."""
    rows: list[Row] = json.loads((ROOT / "results" / TABLES[name]).read_text(encoding="utf-8"))
    return rows


def asked() -> list[Row]:
    """What was asked of the speed, and what the benchmarks have found."""
    race = {(row["workload"], row["simulator"]): row for row in measured("race")}
    presets = by_method(measured("presets"))
    commands = {row["command"]: row for row in measured("commands")}
    crowd = next(row for row in measured("scaling") if row["clients"] == 10_000 and row["workers"] == 2)
    start = number(crowd["start"]) + number(crowd["first round"])
    second, third = (number(race[name, "fedskew"]["seconds a round"]) for name in ("W2", "W3"))
    drift = third / second

    def faster(workload: str, simulator: str) -> float:
        return number(race[workload, simulator]["times fedskew's"])

    def within(end: str) -> int:
        return sum(all(number(row[key]) <= 1.3 for key in row if key.endswith(end)) for row in presets)

    loop, count = "PyTorch loop, 2 processes", len(presets)
    share = number(race["W1", "fedskew"]["% of FMA peak"])
    return [
        at_least("W1 at 40 % of the FMA peak", share, 40, "%"),
        at_least("W1 2.5 times as fast as fedjax", faster("W1", "fedjax"), 2.5, "times"),
        at_least("W1 4 times as fast as Flower on Ray", faster("W1", "flwr + Ray"), 4, "times"),
        at_least("W2 5 times as fast as pfl", faster("W2", "pfl, 2 processes"), 5, "times"),
        at_most("W3 as fast as W2 for an example (within 5 %)", drift, 1.05, "times the time"),
        at_least("W4 2.5 times as fast as the PyTorch loop", faster("W4", loop), 2.5, "times"),
        at_least("the same, its channels last", faster("W4", f"{loop}, channels last"), 2.5, "times"),
        at_least(f"{count} presets within 1.3 for a gradient", within("a gradient"), count, "presets"),
        at_least("the same, other passes counted as work", within("passes counted"), count, "presets"),
        at_most("10,000 clients start in 20 s", start, 20, "s"),
        at_most("and 1,500 MB", number(crowd["megabytes"]), 1500, "MB"),
        at_most("`fedskew demo` in 30 s", number(commands["fedskew demo"]["seconds"]), 30, "s"),
    ]


def at_least(what: str, found: float, bound: float, unit: str) -> Row:
    """A line of a figure that should be large."""
    return _line(what, found, unit, found >= bound)


def at_most(what: str, found: float, bound: float, unit: str) -> Row:
    """A line of a figure that should be small."""
    return _line(what, found, unit, found <= bound)


def _line(what: str, found: float, unit: str, good: bool) -> Row:
    return {"asked": what, "measured": f"{_shown(found)} {unit}", "": "met" if good else "missed"}


def number(value: object) -> float:
    """A figure of a row."""
    assert isinstance(value, int | float), value
    return float(value)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
