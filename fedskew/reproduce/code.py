"""Which code made a result: a hash over what the sources do, not how they are written."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import fedskew
from fedskew.config import Config

_ROOT = Path(fedskew.__file__).parent
_CORE = (
    *("tree", "values", "step", "phase", "part", "local", "method", "algorithm", "adapt", "fit"),
    *("keys", "augment", "evaluate", "examine", "metrics", "data/federation", "data/partition", "losses"),
    "models",
)
_STUDIES = ("diagnostics", "reproduce/studies", "reproduce/aftermath")
_SPEED = ("local", "step", "engines", "kernels", "models", "parts", "losses", "algorithm")


def version(config: Config, study: bool = False) -> str:
    """The version and a hash over the training, the measuring, the dataset and the parts of this method."""
    from fedskew import build

    parts = {_file(type(part).__module__) for part in build.method(config).parts}
    rooms = (*_CORE, *(_STUDIES if study else ()), _dataset(config), *sorted(parts))
    return f"{fedskew.__version__}+{_hash(rooms)}"


def speed() -> str:
    """A hash over what decides how fast a round is."""
    return _hash(_SPEED)


def _dataset(config: Config) -> str:
    from fedskew.data.registry import DATASETS

    return f"data/{DATASETS[config.data.name].module}"


def _file(module: str) -> str:
    """A part of another package counts as nothing here; its own version has to tell."""
    inside = module.startswith("fedskew.")
    return module.removeprefix("fedskew.").replace(".", "/") if inside else "parts/__init__"


@cache
def _hash(rooms: tuple[str, ...]) -> str:
    found = hashlib.sha256()
    for room in rooms:
        for path in _sources(room):
            found.update(_meaning(path).encode())
    return found.hexdigest()[:10]


def _sources(room: str) -> Iterable[Path]:
    file, folder = _ROOT / f"{room}.py", _ROOT / room
    return (
        [file] if file.is_file() else sorted(p for p in folder.iterdir() if p.suffix in (".py", ".cpp", ".h"))
    )


@cache
def _meaning(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
