"""Metrics round by round, for the pictures: results/<recipe>.curves.csv. Nothing here imports torch."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedskew.files import write_text
from fedskew.reproduce import results
from fedskew.reproduce.recipe import Recipe
from fedskew.reproduce.reduce import named_round
from fedskew.reproduce.results import Entry

POINTS = 100  # of a curve
_HEAD = ("cell", "scale", "seed", "metric", "round", "value")


class Point(NamedTuple):
    """One value of one run; rounds count from 1."""

    cell: str
    scale: str
    seed: int
    metric: str
    round: int
    value: float


def points(
    recipe: Recipe, cell: str, scale: str, seed: int, records: Sequence[dict[str, Any]]
) -> list[Point]:
    """The curves that a recipe keeps of a run, thinned."""
    out = []
    for metric in recipe.curves:
        held = [(r["round"] + 1, r[metric]) for r in records if r.get(metric) is not None]
        step = -(-len(held) // POINTS) or 1
        kept = held[::-step][::-1]  # the last round is among them
        out += [Point(cell, scale, seed, metric, number, value) for number, value in kept]
    return out


def completed(recipe: Recipe, entries: Sequence[Entry], kept: Sequence[Point]) -> list[Entry]:
    """Entries with the value of a named round where their run is gone but its curve was kept."""
    named = {score.key: (score.metric, named_round(score.reduce)) for score in recipe.scores.values()}
    values = {(p.cell, p.scale, p.seed, p.metric, p.round): p.value for p in kept}
    out = []
    for entry in entries:
        own = {
            key: values[place]
            for key, (metric, number) in named.items()
            if number and (place := (entry.cell, entry.scale, entry.seed, metric, number)) in values
        }
        out.append(entry._replace(values={**entry.values, **own}))
    return out


def read(recipe: str, folder: Path) -> list[Point]:
    """The kept curves; none where there is no file."""
    return results.lines(folder / f"{recipe}.curves.csv", _point)


def _point(line: dict[str, str]) -> Point:
    place = line["cell"], line["scale"], int(line["seed"]), line["metric"]
    return Point(*place, int(line["round"]), float(line["value"]))


def update(recipe: Recipe, folder: Path, new: Iterable[Point], valid: set[tuple[str, str, int]]) -> None:
    """Adds new curves to those kept; what is not the curve of a valid result goes."""
    made = list(new)
    fresh = {point[:3] for point in made}
    old = [point for point in read(recipe.name, folder) if point[:3] not in fresh]
    kept = [point for point in [*old, *made] if point[:3] in valid]
    if not recipe.curves or not kept:
        return
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(_HEAD)
    for point in sorted(kept):
        sheet.writerow([*point[:-1], f"{point.value:.5g}"])
    write_text(folder / f"{recipe.name}.curves.csv", out.getvalue())
