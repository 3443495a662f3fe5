"""Takes what finished runs have found into results/, and tells what is there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedskew.reproduce import collect, curves, details, load, results
from fedskew.reproduce.cells import Cell, cells, folder, sharing
from fedskew.reproduce.recipe import SCALES, Recipe
from fedskew.reproduce.results import Entry


def kept(recipe: Recipe, into: Path) -> list[Entry]:
    """What is there of the recipe's present settings."""
    return _present(recipe, results.joined(results.read(recipe.name, into), (), _order(recipe)))


def keep(recipe: Recipe, out: Path, into: Path, seeds: Iterable[int] = ()) -> list[Entry]:
    """Every finished run of a recipe, and what was kept before; results of other settings stay in the file."""
    wanted = sorted({*recipe.seeds, *seeds})
    new, lines = [], []
    for cell in _every(recipe):
        for seed in wanted:
            place = folder(cell, seed, out)
            found = collect.entry(recipe, cell, seed, place)
            if found is not None:
                new.append(found)
                lines += _lines(recipe, cell, seed, place)
    with results.alone(into):
        old = results.read(recipe.name, into)
        entries = results.joined(old, new, _order(recipe))
        if new:
            curves.update(recipe, into, lines, {entry.key for entry in entries})
            _details(recipe, out, into)
        entries = curves.completed(recipe, entries, curves.read(recipe.name, into))
        if entries != old:
            results.write(recipe, into, entries)
    return _present(recipe, entries)


def keep_everywhere(cell: Cell, recipe: Recipe, out: Path, into: Path, seeds: Iterable[int]) -> None:
    """A finished run of the recipe's cell, also for the recipes that share it, as far as its seed is theirs."""
    keep(recipe, out, into, seeds)
    for name in sorted(sharing().get(cell.digest, set()) - {recipe.name}):
        keep(load.load(name), out, into)  # fresh seeds are fresh to one recipe only


def _order(recipe: Recipe) -> list[tuple[str, str]]:
    return [(cell.name, cell.digest) for cell in _every(recipe)]


def _present(recipe: Recipe, entries: Iterable[Entry]) -> list[Entry]:
    order = _order(recipe)
    return [entry for entry in entries if (entry.cell, entry.config) in order]


def _every(recipe: Recipe) -> list[Cell]:
    return [cell for scale in SCALES for cell in cells(recipe, scale)]


def _lines(recipe: Recipe, cell: Cell, seed: int, place: Path) -> list[curves.Point]:
    if not recipe.curves:
        return []
    return curves.points(recipe, cell.name, cell.scale, seed, collect.outcome(place).records)


def _details(recipe: Recipe, out: Path, into: Path) -> None:
    """Of the first seed; where a cell was run in full, that counts."""
    full = {cell.name: cell.digest for cell in cells(recipe)}
    for cell in _every(recipe):
        place = folder(cell, recipe.seeds[0], out)
        better = details.read(recipe.name, into).get(cell.name, {}).get("config") == full[cell.name]
        if collect.outcome(place).state == "done" and not (better and cell.scale == "quick"):
            details.update(recipe, cell, place, into)
