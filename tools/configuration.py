"""Writes docs/configuration.md from the schema: python tools/configuration.py."""

from dataclasses import fields
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fedskew.config import Config
from fedskew.parts import ClippedMean, Median, MultiKrum, TrimmedMean

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
    parts = [HEAD, _table("top level", Config, skip_tables=True)]
    for name, field in Config.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            parts.append(_table(f"`[{name}]`", field.annotation))
    return "\n".join([*parts, _parts()])


def _parts() -> str:
    """The aggregates that no preset has: who wants one names it."""
    lines = [
        "## Robust aggregates\n",
        "Parts that no preset uses; a table `[method.NAME]` puts one in the place of the mean. What they cost under "
        "label\nskew is measured in [Reliability](reliability.md).\n",
        "| part | settings | what it does |",
        "|---|---|---|",
    ]
    for part in (ClippedMean, Median, MultiKrum, TrimmedMean):
        settings = ", ".join(f"`{field.name}` = {field.default}" for field in fields(part))
        about = " ".join((part.__doc__ or "").split("\n\n")[0].split())
        lines.append(f"| `{part.__name__}` | {settings or 'none'} | {about} |")
    return "\n".join(lines) + "\n"


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
