"""Writes the measured tables into docs/performance.md, between their markers.

python benchmarks/tables.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
TABLES = {"race": "bench.json", "presets": "presets.json", "scaling": "scaling.json"}
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
    return list(found.values())


def filled(text: str, name: str, content: str) -> str:
    """The text with what is between the markers of this name replaced."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if start not in text or end not in text:
        raise ValueError(f"{PAGE.name} has no part {name}")
    before, rest = text.split(start, 1)
    return f"{before}{start}\n{content}\n\n{end}{rest.split(end, 1)[1]}"


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value == int(value) and abs(value) >= 10 else f"{value:.3g}"
    return "" if value is None else str(value)


def page(text: str) -> str:
    """The page with what has been measured filled in."""
    for name, file in TABLES.items():
        path = ROOT / "results" / file
        if path.exists():
            rows = json.loads(path.read_text(encoding="utf-8"))
            text = filled(text, name, table(by_method(rows) if name == "presets" else rows))
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
