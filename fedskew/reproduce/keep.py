"""Takes what finished runs have found into results/."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fedskew.reproduce import collect, curves, details, results
from fedskew.reproduce.cells import Cell, cells, folder
from fedskew.reproduce.recipe import SCALES, Recipe
from fedskew.reproduce.results import Entry


def keep(recipe: Recipe, out: Path, into: Path, seeds: Iterable[int] = ()) -> list[Entry]:
    """Every finished run of a recipe, and what was kept before of its present settings."""
    every = [cell for scale in SCALES for cell in cells(recipe, scale)]
    wanted = sorted({*recipe.seeds, *seeds})
    new, lines = [], []
    for cell in every:
        for seed in wanted:
            place = folder(cell, seed, out)
            found = collect.entry(recipe, cell, seed, place)
            if found is not None:
                new.append(found)
                lines += _lines(recipe, cell, seed, place)
    order = [(cell.name, cell.digest) for cell in every]
    entries = results.joined(results.read(recipe.name, into), new, order)
    if entries:
        curves.update(recipe, into, lines, {entry.key for entry in entries})
        entries = curves.completed(recipe, entries, curves.read(recipe.name, into))
        results.write(recipe, into, entries)
        _details(recipe, every, out, into)
    return entries


def _lines(recipe: Recipe, cell: Cell, seed: int, place: Path) -> list[curves.Point]:
    if not recipe.curves:
        return []
    return curves.points(recipe, cell.name, cell.scale, seed, collect.outcome(place).records)


def _details(recipe: Recipe, every: Sequence[Cell], out: Path, into: Path) -> None:
    """Of the first seed; where a cell was run in full, that counts."""
    for cell in sorted(every, key=lambda cell: cell.scale == "quick"):
        place = folder(cell, recipe.seeds[0], out)
        better = details.read(recipe.name, into).get(cell.name, {}).get("scale") == "full"
        if collect.outcome(place).state == "done" and not (better and cell.scale == "quick"):
            details.update(recipe, cell, place, into)
