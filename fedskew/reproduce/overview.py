"""What `fedskew recipes` says: cells, what is done, what the rest costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from fedskew.errors import DataError
from fedskew.reproduce import cost, results
from fedskew.reproduce.cells import Cell, cells
from fedskew.reproduce.recipe import Recipe


def rows(recipe: Recipe, folder: Path, by_cell: bool) -> list[list[str]]:
    """A line for the recipe, or one for each of its cells."""
    full, quick = cells(recipe), cells(recipe, "quick")
    whole = [one for one in results.read(recipe.name, folder) if results.is_whole(recipe, one)]
    done = {(entry.cell, entry.scale, entry.config, entry.seed) for entry in whole}
    if not by_cell:
        what = f"{recipe.paper}, {recipe.where}: {recipe.title}"
        return [[recipe.name, what, *_numbers(recipe, full, quick, done)]]
    pairs = zip(full, quick, strict=True)
    return [[one.name, one.label, *_numbers(recipe, [one], [two], done)] for one, two in pairs]


def _numbers(
    recipe: Recipe, full: Sequence[Cell], quick: Sequence[Cell], done: Collection[tuple[str, str, str, int]]
) -> list[str]:
    def missing(group: Sequence[Cell]) -> list[Cell]:
        wanted = [(cell, seed) for cell in group for seed in recipe.seeds]
        return [cell for cell, seed in wanted if (cell.name, cell.scale, cell.digest, seed) not in done]

    left = missing(full)
    every = len(full) * len(recipe.seeds)
    tiers = ", ".join(_tier(full, tier) for tier in (1, 2, 3) if any(cell.tier == tier for cell in full))
    made = f"{every - len(left)}" + f" + {len(quick) * len(recipe.seeds) - len(missing(quick))} quick"
    return [tiers, made, str(len(left)), _hours(left), _hours(missing(quick))]


def _tier(group: Sequence[Cell], tier: int) -> str:
    count = sum(cell.tier == tier for cell in group)
    return f"{tier}" if len(group) == 1 else f"{tier}: {count}"


def _hours(group: Sequence[Cell]) -> str:
    timings = [(cell, cost.known(cell)) for cell in group]
    known = [cost.seconds(cell.config, timing) for cell, timing in timings if timing is not None]
    if not known:
        return "?" if group else "0"
    more = "" if len(known) == len(group) else " + ?"
    hours = sum(known) / 3600
    return f"{hours:.0f}{more}" if hours >= 10 else f"{hours:.2g}{more}"


def measure(recipes: Sequence[Recipe], say: Callable[[str], None]) -> Iterator[str]:
    """Times one client of every kind of cell that was not timed; tells of data that are not here."""
    tried: set[str] = set()
    for recipe in recipes:
        for cell in cells(recipe):
            key = cost.key(cell.config)
            if key in tried or cost.known(cell) is not None:
                continue
            tried.add(key)
            say(f"timing {recipe.name} {cell.name}")
            try:
                cost.measured(cell)
            except DataError as error:
                yield f"not here: {error}"
