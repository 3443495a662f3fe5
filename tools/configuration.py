"""Writes docs/configuration.md from the schema: python tools/configuration.py."""

import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fedskew import parts
from fedskew.config import Config
from fedskew.data import registry
from fedskew.data.partition import IID, Dirichlet, Incomplete, Labels, Natural, PowerLaw, Shards
from fedskew.data.registry import DATASETS
from fedskew.models.registry import MODELS
from fedskew.parts import ClippedMean, Median, MultiKrum, TrimmedMean

SCHEMES = (Labels, Shards, Dirichlet, Incomplete, PowerLaw, IID, Natural)
ROBUST = (ClippedMean, Median, MultiKrum, TrimmedMean)
SELDOM = """Parts that no preset uses; a table `[method.NAME]` puts one in the place of the mean. What they cost under
label skew is measured in [Reliability](reliability.md).
"""
USUAL = """`fedskew methods --wide` says which parts a preset has; parts without settings are left out here. The first
of several values in quotes is the default.
"""
PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration

An experiment is a TOML file. `fedskew new experiment.toml` writes one that runs; `-s table.key=value` replaces a
setting for one run; the resolved file of a run (`runs/<name>/<seed>/config.toml`) runs again to the same bytes.
A key that does not exist is refused with the nearest one that does. The tables `[data]`, `[split]`, `[model]` take
the options of what they name as further keys; in `[method]`, a table named after a part holds its settings:

```toml
[method]
preset = "fedlc+fedprox"
[method.Proximal]
mu = 0.1
```
"""


def text() -> str:
    """The page."""
    pieces = [HEAD, _table("top level", Config, skip_tables=True)]
    for name, field in Config.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            pieces.append(_table(f"`[{name}]`", field.annotation))
            if name in OPTIONS:
                pieces.append(OPTIONS[name]())
    return "\n".join(pieces)


def _datasets() -> str:
    return _choices(
        "name", [(f"`{name}`", registry.settings(name), one.about) for name, one in DATASETS.items()]
    )


def _schemes() -> str:
    return _choices("scheme", [(f"`{kind.__name__.lower()}`", kind, _about(kind)) for kind in SCHEMES])


def _networks() -> str:
    """One row for each class; its networks differ in how it is set."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, one in MODELS.items():
        rows.setdefault((one.module, one.cls), []).append(f"`{name}`")
    kinds = {where: getattr(import_module(f"fedskew.models.{where[0]}"), where[1]) for where in rows}
    table = _choices("name", [(", ".join(rows[where]), kind, _about(kind)) for where, kind in kinds.items()])
    return (
        "A name sets some of these keys to the network it stands for; the others have these defaults.\n\n"
        + table
    )


def _methods() -> str:
    used = [getattr(parts, name) for name in parts.__all__ if getattr(parts, name) not in ROBUST]
    usual = _parts([part for part in used if fields(part)], "### Settings of parts", USUAL)
    return usual + "\n" + _parts(ROBUST, "### Robust aggregates", SELDOM)


OPTIONS: dict[str, Callable[[], str]] = {
    "data": _datasets,
    "split": _schemes,
    "model": _networks,
    "method": _methods,
}


def _parts(kinds: Sequence[type[Any]], title: str, about: str) -> str:
    lines = [f"{title}\n", about, "| part | settings | what it does |", "|---|---|---|"]
    lines += [f"| `{part.__name__}` | {_settings(part)} | {_about(part)} |" for part in kinds]
    return "\n".join(lines) + "\n"


def _choices(key: str, rows: Sequence[tuple[str, type[Any], str]]) -> str:
    lines = [f"| `{key}` | further keys | what it is |", "|---|---|---|"]
    lines += [f"| {names} | {_settings(kind)} | {about} |" for names, kind, about in rows]
    return "\n".join(lines) + "\n"


def _settings(kind: type[Any]) -> str:
    """Options with their defaults and, of words, all choices."""
    hints = get_type_hints(kind)
    return ", ".join(f"`{one.name}` {_value(one.default, hints[one.name])}" for one in fields(kind)) or "none"


def _value(default: object, hint: object) -> str:
    if default is MISSING:
        return "(needed)"
    if default is None:
        return "(not set)"
    if isinstance(default, str):
        others = [word for word in get_args(hint) if word != default and get_origin(hint) is Literal]
        return "= " + " or ".join(f'"{word}"' for word in (default, *others))
    return "= " + json.dumps(default)


def _about(kind: type[Any]) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split()).replace("|", "\\|")


def _table(title: str, model: type[BaseModel], skip_tables: bool = False) -> str:
    about = "" if skip_tables else (model.__doc__ or "").splitlines()[0] + "\n"
    lines = [f"## {title}\n", about, "| key | default | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        if not (skip_tables and isinstance(field.default, BaseModel)):
            lines.append(f"| `{name}` | `{_shown(field)}` | {_meaning(field)} |")
    return "\n".join(lines) + "\n"


def _shown(field: FieldInfo) -> str:
    value = field.default
    return "not set" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)


def _meaning(field: FieldInfo) -> str:
    allowed = str(field.annotation)
    choices = allowed[allowed.index("[") + 1 : -1] if allowed.startswith("typing.Literal") else ""
    return "; ".join(piece for piece in (field.description or "", choices) if piece)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
