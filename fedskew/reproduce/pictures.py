"""The papers' figures from our results: tables, sweeps and curves; `sights.py` has the closer looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedskew import stats
from fedskew.reproduce import compare, curves, details, keep, sights
from fedskew.reproduce.chart import Chart, Panel, Series
from fedskew.reproduce.curves import Point
from fedskew.reproduce.recipe import Column, Picture, Recipe, Row, Scale
from fedskew.reproduce.results import Entry

Options = dict[str, Any]


class Material(NamedTuple):
    """What a figure can be made of."""

    recipe: Recipe
    entries: Sequence[Entry]
    points: Sequence[Point]
    details: dict[str, dict[str, Any]]


def charts(recipe: Recipe, folder: Path) -> list[Chart]:
    """Every figure of a recipe for which there are results of its present settings."""
    entries = keep.kept(recipe, folder)
    keys, digests = {entry.key for entry in entries}, {(entry.cell, entry.config) for entry in entries}
    points = [point for point in curves.read(recipe.name, folder) if point[:3] in keys]
    closer = details.read(recipe.name, folder).items()
    found = Material(
        recipe, entries, points, {cell: own for cell, own in closer if (cell, own["config"]) in digests}
    )
    made = [chart(picture, found) for picture in recipe.pictures]
    return [one for one in made if one is not None and one.panels]


def chart(picture: Picture, found: Material) -> Chart | None:
    """One figure; None where it would be empty."""
    if picture.kind in KINDS:
        panels = KINDS[picture.kind](found, picture.options)
    else:
        panels = sights.panels(picture.kind, found.recipe, found.details, picture.options)
    lacks = f" ({found.recipe.lacks})" * bool(found.recipe.lacks)
    return Chart(f"{found.recipe.paper}, {found.recipe.where}: {picture.title}{lacks}", tuple(panels))


def _bars(found: Material, options: Options) -> list[Panel]:
    known = compare.alike(found.recipe, found.entries, options["score"], lambda row: row.name)
    rows = found.recipe.chosen(tuple(options.get("rows", ["*"])))
    series = []
    for column in found.recipe.columns:
        mine = [line for line in known if line.column is column and line.row in rows]
        if mine:
            x = [(line.row.label or line.row.name) + _quick(line) for line in mine]
            spread = [0.0 if math.isnan(line.ours.std) else line.ours.std for line in mine if line.ours]
            spread = spread if any(spread) else []
            y = [line.ours.mean for line in mine if line.ours]
            written = [line.found.partition(" ")[0] + "*" * line.few for line in mine]
            series.append(Series(_name(column), x, y, "bar", spread, written=written))
    few = "* fewer than three seeds" * any("*" in text for one in series for text in one.written)
    return [Panel("", few, _axis(found, options), tuple(series))] if series else []


def _lines(found: Material, options: Options) -> list[Panel]:
    """A score along the rows of each sweep: those with a place on the axis, named alike but for the end."""
    known = compare.alike(found.recipe, found.entries, options["score"], _sweep)
    panels = []
    for sweep, scale in dict.fromkeys((_sweep(line.row), _quick(line)) for line in known):
        series, seeds = [], set()
        for column in found.recipe.columns:
            mine = [line for line in known if _sweep(line.row) == sweep and line.column is column]
            points = [(x, line.ours) for line in mine if line.ours and (x := _place(line.row)) is not None]
            if len(points) > 1:
                series.append(Series(_name(column), [x for x, _ in points], [y.mean for _, y in points]))
                seeds |= {y.n for _, y in points}
        if series:
            axes = options.get("axis", "alpha"), _axis(found, options)
            title = f"{sweep} ({_seeds(seeds)}{'; quick' * bool(scale)})".strip()
            panels.append(Panel(title, *axes, tuple(series)))
    return panels


def _sweep(row: Row) -> str:
    return row.name.rpartition("-")[0]


def _axis(found: Material, options: Options) -> str:
    score = found.recipe.scores[options["score"]]
    return f"{score.label}, %" if score.percent else score.label


def _quick(line: compare.Line) -> str:
    return " (quick)" * (line.scale == "quick")


def _place(row: Row) -> float | None:
    if row.x is not None:
        return row.x
    try:
        return float(row.name.rpartition("-")[2])
    except ValueError:
        return None


def _scores(found: Material, options: Options) -> list[Panel]:
    """All scores of a sweep in one panel."""
    series, seeds = [], set()
    for name, score in found.recipe.scores.items():
        known = compare.alike(found.recipe, found.entries, name, lambda row: "")
        points = [(_place(line.row), line.ours) for line in known if line.ours]
        if points:
            series.append(Series(score.label, [x for x, _ in points], [y.mean for _, y in points]))
            seeds |= {y.n for _, y in points}
    return [Panel(_seeds(seeds), options["axis"], options["label"], tuple(series))] if series else []


def _curves(found: Material, options: Options) -> list[Panel]:
    """A panel a row, a line a method: the mean over seeds."""
    percent = options.get("percent", True)
    factor, axis = (100.0, f"{options['axis']}, %") if percent else (1.0, options["axis"])
    panels = []
    for row in found.recipe.rows:
        curves = {
            _name(column): _mean_curve(found.points, f"{row.name}.{column.name}", options["metric"])
            for column in found.recipe.columns
        }
        drawn = {name: curve for name, curve in curves.items() if curve.rounds}
        if drawn:
            quick = [name for name, curve in drawn.items() if curve.scale == "quick"]
            which = f": {', '.join(quick)}" if len(quick) < len(drawn) else ""
            about = _seeds({curve.seeds for curve in drawn.values()}) + f"; quick{which}" * bool(quick)
            series = [Series(n, c.rounds, [factor * value for value in c.values]) for n, c in drawn.items()]
            panels.append(Panel(f"{row.label or row.name} ({about})", "round", axis, tuple(series)))
    return panels


class Curve(NamedTuple):
    """Rounds that all seeds have come to and the means over them; of full runs, or else of quick ones."""

    rounds: list[int]
    values: list[float]
    scale: Scale
    seeds: int


def _mean_curve(points: Sequence[Point], cell: str, metric: str) -> Curve:
    mine = [point for point in points if point.cell == cell and point.metric == metric]
    scale: Scale = "full" if any(point.scale == "full" for point in mine) else "quick"
    by_round: dict[int, dict[int, float]] = {}
    for point in mine:
        if point.scale == scale:
            by_round.setdefault(point.round, {})[point.seed] = point.value
    seeds = {seed for values in by_round.values() for seed in values}
    rounds = sorted(number for number, values in by_round.items() if values.keys() == seeds)
    means = [stats.summarise(list(by_round[number].values())).mean for number in rounds]
    return Curve(rounds, means, scale, len(seeds))


def _seeds(counts: Collection[int]) -> str:
    """How many seeds the means of a panel are over."""
    least, most = min(counts), max(counts)
    return f"{least} to {most} seeds" if least < most else f"{most} seed{'s' * (most != 1)}"


def _proxies(found: Material, options: Options) -> list[Panel]:
    """Norms, gradients and distances of the rows of a head, epoch by epoch (MAP, Fig. 6)."""
    panels = []
    for row in found.recipe.rows:
        for column in found.recipe.columns:
            cell = f"{row.name}.{column.name}"
            for what in ("norm", "gradient", "distance"):
                metrics = [metric for metric in found.recipe.curves if metric.startswith(what)]
                made = {metric: _mean_curve(found.points, cell, metric) for metric in metrics}
                drawn = {metric: curve for metric, curve in made.items() if curve.rounds}
                lines = [
                    Series(metric.partition(".")[2].replace("_", " to "), curve.rounds, curve.values)
                    for metric, curve in drawn.items()
                ]
                if lines:
                    seeds = _seeds({curve.seeds for curve in drawn.values()})
                    title = f"{row.label}, {_name(column)}: {what} ({seeds})"
                    panels.append(Panel(title, "epoch", what, tuple(lines)))
    return panels


def _name(column: Column) -> str:
    return column.label or column.name


KINDS: dict[str, Callable[[Material, Options], list[Panel]]] = {
    "bars": _bars,
    "lines": _lines,
    "scores": _scores,
    "curves": _curves,
    "proxies": _proxies,
}
