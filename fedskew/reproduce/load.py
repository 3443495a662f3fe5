"""Recipes from their files: those of the package by name, your own by path."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedskew.errors import ConfigError, reason, unknown
from fedskew.reproduce.recipe import Recipe, Settings

_JOINED = ("settings", "quick", "groups")  # tables of both are merged
_INHERITED = (*_JOINED, "paper", "tier", "seeds", "columns", "scores", "metrics", "contests")
_OWN = ("published", "tiers", "columns")  # of a row: belong to the recipe that says them


def names() -> list[str]:
    """The recipes of the package."""
    files = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def load(name: str) -> Recipe:
    """The recipe of this name, or in this file."""
    path = Path(name)
    if path.suffix == ".toml" and path.is_file():
        if path.stem in names():
            raise ConfigError(
                f"{name}: {path.stem} is a recipe of the package, whose results yours would replace. "
                "Give the file another name."
            )
        return _parse(path.stem, _complete(_read(path.read_text(encoding="utf-8"), name)), name)
    if name not in names():
        raise ConfigError(unknown("recipe", name, names()))
    return _shipped(name)


@cache
def _shipped(name: str) -> Recipe:
    return _parse(name, _complete(_table(name)), f"recipe {name}")


def _folder() -> Any:
    return files("fedskew") / "recipes"


@cache
def _table(name: str) -> Settings:
    return _read((_folder() / f"{name}.toml").read_text(encoding="utf-8"), f"recipe {name}")


def _read(text: str, where: str) -> Settings:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}.") from error


def _complete(table: Settings) -> Settings:
    """The table with what it takes over from the recipe that it is like."""
    if "like" not in table:
        return table
    if table["like"] not in names():
        raise ConfigError(unknown("recipe to be like", table["like"], names()))
    base = _complete(_table(table["like"]))
    own = {key: value for key, value in table.items() if key != "like"}
    taken = {key: base[key] for key in _INHERITED if key in base}
    joined = {key: merged(taken.get(key, {}), own.get(key, {})) for key in _JOINED}
    return {**taken, **own, **joined, "rows": _rows(base["rows"], own.get("rows", []))}


def _rows(base: list[Settings], own: list[Settings]) -> list[Settings]:
    """The rows named here on top of those of the same name; without any, all of them, unpublished."""
    bare = {row["name"]: {key: value for key, value in row.items() if key not in _OWN} for row in base}
    if not own:
        return list(bare.values())
    return [merged(bare.get(row.get("name"), {}), row) for row in own]


def merged(base: Settings, over: Settings) -> Settings:
    """Nested tables joined; where both have a value, the second one's counts."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merged(out[key], value) if both else value
    return out


def _parse(name: str, table: Settings, where: str) -> Recipe:
    try:
        return Recipe.model_validate({"name": name, **table})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the recipe"
        raise ConfigError(f"{where}: {place}: {reason(first['msg'])}.") from None
