"""The cells of a recipe: each is a configuration; cells of two recipes with the same one share their runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fedskew.config import Config, parse
from fedskew.errors import ConfigError
from fedskew.reproduce import load
from fedskew.reproduce.recipe import SCALES, Column, Recipe, Row, Scale, Settings

QUICK = ".quick"
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
    settings: Settings  # what the recipe says of it
    study: Settings
    per_seed: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Tells settings apart, whatever the recipe calls them; a new setting with a default changes none."""
        table = {key: value for key, value in self.settings.items() if key != "engine"}
        study = [self.study, self.scale] if self.study else self.study  # it may begin with a run of its scale
        text = json.dumps([table, study, self.per_seed], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def seeded(self, seed: int) -> Config:
        """The configuration of one seed, under the name of the cell that keeps its runs."""
        name = home(self)[1]
        return self.config.changed({"name": name, "seeds": [seed], **dict.fromkeys(self.per_seed, seed)})


def cells(recipe: Recipe, scale: Scale = "full") -> list[Cell]:
    """Every cell, row by row."""
    return [
        _cell(recipe, row, column, scale)
        for row in recipe.rows
        for column in recipe.columns
        if not row.columns or column.name in row.columns
    ]


def select(found: Sequence[Cell], patterns: Sequence[str] = (), tier: int | None = None) -> list[Cell]:
    """The cells whose names match one of the patterns, of this tier or a lower one."""
    for pattern in patterns:
        if not any(fnmatchcase(cell.name, pattern) for cell in found):
            known = ", ".join(cell.name for cell in found[:12])
            raise ConfigError(f"no cell matches '{pattern}'. Cells are named row.column: {known}, ...")
    named = [c for c in found if not patterns or any(fnmatchcase(c.name, p) for p in patterns)]
    return [cell for cell in named if tier is None or cell.tier <= tier]


def start(study: Cell) -> Cell | None:
    """The cell whose finished run a study begins with, if it does."""
    if not {"recipe", "cell"} <= study.study.keys():
        return None
    return select(cells(load.load(study.study["recipe"]), study.scale), [study.study["cell"]])[0]


def home(cell: Cell) -> tuple[str, str]:
    """The recipe and the name that keep the cell's runs: the first ones with the same settings."""
    return homes().get(cell.digest, (cell.recipe, _stored(cell)))


def folder(cell: Cell, seed: int, runs: Path) -> Path:
    """Where a seed of the cell is kept."""
    recipe, name = home(cell)
    return runs / "reproduce" / recipe / name / str(seed)


@cache
def homes() -> dict[str, tuple[str, str]]:
    """By digest, the recipe and the name under which runs are kept."""
    found: dict[str, tuple[str, str]] = {}
    for name in load.names():
        for scale in SCALES:
            for cell in cells(load.load(name), scale):
                found.setdefault(cell.digest, (name, _stored(cell)))
    return found


def _stored(cell: Cell) -> str:
    return cell.name + (QUICK if cell.scale == "quick" else "")


def _cell(recipe: Recipe, row: Row, column: Column, scale: Scale) -> Cell:
    name, group = f"{row.name}.{column.name}", recipe.groups.get(row.group)
    table = _settings(recipe, row, column, scale)
    config = parse({**table, "name": name}, f"recipe {recipe.name}, cell {name}")
    study = load.merged(row.study, column.study) if row.study else {}
    label = f"{row.label or row.name}, {column.label or column.name}"
    return Cell(
        *(recipe.name, name, row.name, column.name, label, scale),
        *(_tier(recipe, row, column), config, table, study, group.per_seed if group else ()),
    )


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
