"""What is kept of every run: one line a cell, seed and scale in results/<recipe>.csv. No torch here."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar, cast, get_args

from fedskew.errors import DataError, DiskError
from fedskew.files import write_text
from fedskew.reproduce.recipe import Recipe, Scale
from fedskew.reproduce.reduce import ALWAYS
from fedskew.store.journal import finite

T = TypeVar("T")
_FIXED = ("cell", "scale", "seed", "status", "rounds", "config", "code", "seconds")


class Entry(NamedTuple):
    """One seed of one cell."""

    cell: str
    scale: Scale
    seed: int
    status: str  # "done" or "diverged"
    rounds: int
    config: str  # digest of the settings
    code: str  # version of the package and hash of the method's sources
    seconds: float
    values: dict[str, float]  # by "<metric>.<reducer>": what was asked for then, nan where the run has none

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is a result of."""
        return self.cell, self.scale, self.seed


def keys(recipe: Recipe) -> list[str]:
    """The columns of values that a recipe keeps."""
    metrics = [*(score.metric for score in recipe.scores.values()), *recipe.metrics]
    plain = [f"{metric}.{name}" for metric in metrics for name in ALWAYS]
    return list(dict.fromkeys([*plain, *(score.key for score in recipe.scores.values())]))


def read(recipe: str, folder: Path) -> list[Entry]:
    """The kept results; none where there is no file."""
    return lines(folder / f"{recipe}.csv", _entry)


def lines(path: Path, make: Callable[[dict[str, str]], T]) -> list[T]:
    """What is made of every line of a file that was written here; none where there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
        found = list(csv.DictReader(io.StringIO(text)))
        if not text.endswith("\n") or any(None in (*line, *line.values()) for line in found):
            raise ValueError("a line is cut off or too long")
        return [make(line) for line in found]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}). Choose another folder with --results."
        ) from error
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        raise DataError(f"{path}: is not what `fedskew reproduce` writes ({error!r}). Remove it.") from error


def _entry(line: dict[str, str]) -> Entry:
    if line["scale"] not in get_args(Scale) or line["status"] not in ("done", "diverged"):
        raise ValueError(f"{line['scale']}, {line['status']}")
    values = {key: float(text) for key, text in line.items() if key not in _FIXED and text}
    return Entry(
        *(line["cell"], cast(Scale, line["scale"]), int(line["seed"]), line["status"], int(line["rounds"])),
        *(line["config"], line["code"], float(line["seconds"]), values),
    )


def write(recipe: Recipe, folder: Path, entries: Iterable[Entry]) -> None:
    """Replaces the file of a recipe."""
    columns = keys(recipe)
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow([*_FIXED, *columns])
    for entry in entries:
        fixed = [*entry[: len(_FIXED) - 1], f"{entry.seconds:.1f}"]
        sheet.writerow([*fixed, *(_number(entry.values.get(key)) for key in columns)])
    write_text(folder / f"{recipe.name}.csv", out.getvalue())


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits until no other process changes the results there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise DiskError(
            f"{folder}: cannot be opened ({error}). Choose another folder with --results."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def writable(folder: Path) -> None:
    """Raises DiskError unless results can be written there, before hours are spent on them."""
    with alone(folder):
        write_text(folder / ".try", "")
        (folder / ".try").unlink()


def save_json(path: Path, value: object) -> None:
    """Writes a value in one step, with null for what is no number."""
    write_text(path, json.dumps(finite(value), separators=(",", ":")) + "\n")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def is_whole(recipe: Recipe, entry: Entry) -> bool:
    """Whether it says all that the recipe asks for today; who diverged has nothing more to say."""
    return entry.status == "diverged" or all(key in entry.values for key in keys(recipe))


def joined(old: Sequence[Entry], new: Sequence[Entry], order: Sequence[tuple[str, str]]) -> list[Entry]:
    """Old entries replaced by new ones of the same key, in order of (cell, digest); those of other settings last."""
    place = {pair: number for number, pair in enumerate(order)}
    both = {entry.key: entry for entry in [*old, *new]}
    return sorted(
        both.values(), key=lambda e: (place.get((e.cell, e.config), len(order)), e.cell, e.scale, e.seed)
    )
