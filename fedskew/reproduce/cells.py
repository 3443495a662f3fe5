"""The cells of a recipe: each is a configuration; cells of two recipes with the same one share their runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fedskew.config import Config, parse
from fedskew.errors import ConfigError, unknown
from fedskew.reproduce import load
from fedskew.reproduce.recipe import SCALES, Column, Recipe, Row, Scale, Settings

_ENGINE = {"engine": {"name": "serial"}}  # cells run beside each other, so each takes one core


class Cell(NamedTuple):
    """One method in one row, in one scale."""

    recipe: str
    name: str
    row: str
    column: str
    label: str
    scale: Scale
    tier: int
    config: Config
    study: Settings
    per_seed: tuple[str, ...]
    digest: str  # of what the recipe says: a new setting with a default changes none
    run: str  # the name of its runs, in whichever recipe it stands
    quick_run: str  # that of the same cell in quick scale

    def seeded(self, seed: int) -> Config:
        """The configuration of one seed, under the name of its run."""
        own = dict.fromkeys(self.per_seed, seed)
        return self.config.changed({"name": self.run, "seeds": [seed], **own})


def cells(recipe: Recipe, scale: Scale = "full") -> list[Cell]:
    """Every cell, row by row."""
    return [_cell(recipe, row, column, scale) for row, column in _pairs(recipe)]


def _pairs(recipe: Recipe) -> Iterator[tuple[Row, Column]]:
    for row in recipe.rows:
        for column in recipe.columns:
            if not row.columns or column.name in row.columns:
                yield row, column


def check(found: Iterable[Cell], patterns: Sequence[str]) -> None:
    """Raises where a pattern is no cell's."""
    names = [cell.name for cell in found]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names[:12])
            raise ConfigError(f"no cell matches '{pattern}'. Cells are named row.column: {known}, ...")


def select(found: Sequence[Cell], patterns: Sequence[str] = (), tier: int | None = None) -> list[Cell]:
    """The cells whose names match one of the patterns, of this tier or a lower one."""
    named = [c for c in found if not patterns or any(fnmatchcase(c.name, p) for p in patterns)]
    return [cell for cell in named if tier is None or cell.tier <= tier]


def start(study: Cell) -> Cell | None:
    """The cell whose finished run a study begins with, if it does."""
    return _start(study.study, study.scale)


def _start(study: Settings, scale: Scale) -> Cell | None:
    if not {"recipe", "cell"} <= study.keys():
        return None
    begun, name = load.load(study["recipe"]), study["cell"]
    for row, column in _pairs(begun):
        if f"{row.name}.{column.name}" == name:
            if row.study:
                raise ConfigError(f"a study begins with a run, and {begun.name} {name} is a study itself.")
            return _cell(begun, row, column, scale)
    known = [f"{row.name}.{column.name}" for row, column in _pairs(begun)]
    raise ConfigError(unknown(f"cell of recipe {begun.name}", name, known))


def folder(cell: Cell, seed: int, runs: Path) -> Path:
    """Where a seed of the cell is kept: cells with the same settings share it."""
    return runs / "reproduce" / cell.run / str(seed)


@cache
def sharing() -> dict[str, set[str]]:
    """The recipes of the package by the digests of their cells."""
    found: dict[str, set[str]] = {}
    for name in load.names():
        for scale in SCALES:
            for cell in cells(load.load(name), scale):
                found.setdefault(cell.digest, set()).add(name)
    return found


def _cell(recipe: Recipe, row: Row, column: Column, scale: Scale) -> Cell:
    name, group = f"{row.name}.{column.name}", recipe.groups.get(row.group)
    tables = {one: _settings(recipe, row, column, one) for one in SCALES}
    config = parse({**tables[scale], "name": name}, f"recipe {recipe.name}, cell {name}")
    study = load.merged(row.study, column.study) if row.study else {}
    per_seed = group.per_seed if group else ()
    digests = {one: _digest(tables[one], study, one, per_seed) for one in SCALES}
    runs = {one: f"{config.method.preset}-{config.data.name}-{digest}" for one, digest in digests.items()}
    label = f"{row.label or row.name}, {column.label or column.name}"
    return Cell(
        *(recipe.name, name, row.name, column.name, label, scale, _tier(recipe, row, column)),
        *(config, study, per_seed, digests[scale], runs[scale], runs["quick"]),
    )


def _digest(settings: Settings, study: Settings, scale: Scale, per_seed: Sequence[str]) -> str:
    table = {key: value for key, value in settings.items() if key != "engine"}
    begun = _start(study, scale)
    own = [study, scale, *([begun.digest] if begun else [])] if study else study
    text = json.dumps([table, own, per_seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _settings(recipe: Recipe, row: Row, column: Column, scale: Scale) -> dict[str, Any]:
    group = recipe.groups.get(row.group)
    layers = [_ENGINE, recipe.settings, group.settings if group else {}, row.settings]
    layers += [column.settings, column.on.get(row.group, {})]
    if scale == "quick":
        layers += [recipe.quick, group.quick if group else {}, row.quick]
    table: Settings = {}
    for layer in layers:
        table = load.merged(table, layer)
    return table


def _tier(recipe: Recipe, row: Row, column: Column) -> int:
    if column.name in row.tiers:
        return row.tiers[column.name]
    group = recipe.groups.get(row.group)
    wanted = row.tier or (group.tier if group else None) or recipe.tier
    return max(wanted, column.tier or 1)
