"""Label counts of a federation, from whatever says them: a table, a run, a partition or a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedskew.data.partition.dealing import Indices
from fedskew.data.table import read_csv
from fedskew.errors import ConfigError, DataError
from fedskew.store import layout
from fedskew.store.reader import RunReader

CENSUS = "census.json"  # a run writes it beside its partition

NAMES = ("", "client", "id", "index", "unnamed: 0")  # headers of a column that counts nothing


class Tally(NamedTuple):
    """How many training examples of each class every client has."""

    counts: Indices  # [K, C]
    classes: tuple[str, ...]
    participation: float | None = None  # where a configuration or a run says it


def read(path: Path, data: str | None = None) -> Tally:
    """The counts that `path` tells of; a partition alone holds positions and needs its dataset."""
    if path.is_dir():
        return _checked(_census(path / CENSUS), path)
    if path.suffix == ".csv":
        return _checked(_table(path), path)
    if path.suffix == ".toml":
        return _checked(_configured(path), path)
    if path.suffix == ".json":
        beside = path.with_name(CENSUS)
        return _checked(_census(beside) if beside.exists() else _partition(path, data), path)
    raise ConfigError(f"{path}: is no .csv of counts, partition (.json), configuration (.toml) or run.")


def _table(path: Path) -> Tally:
    """One line a client, one column a class; a first column of NAMES, or with words, names them."""
    table = read_csv(path, ",").columns
    first, *classes = table
    if first.strip().lower() not in NAMES and _numbers(table[first]):
        classes = [first, *classes]
    strange = [name for name in classes if not _numbers(table[name])]
    if strange:
        raise DataError(
            f"{path}: column {strange[0]!r} has a count that is no number. One line a client and one column a "
            "class are needed; only the first column may name the clients."
        )
    columns = [table[name].astype(np.float64) for name in classes]
    whole = np.stack(columns, axis=1) if columns else np.zeros((0, 0))
    if not np.isfinite(whole).all() or (whole != np.round(whole)).any():
        raise DataError(f"{path}: a count is no whole number.")
    return Tally(whole.astype(np.int64), tuple(classes))


def _numbers(column: NDArray[Any]) -> bool:
    try:
        column.astype(np.float64)
    except ValueError:
        return False
    return True


def _census(path: Path) -> Tally:
    if not path.exists():
        layout.check_run(path.parent)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        classes = tuple(map(str, found["classes"]))
        return Tally(np.array(found["train"], dtype=np.int64), classes, _participation(path.parent))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is not what a run writes ({error!r}).") from error


def _participation(place: Path) -> float | None:
    return float(RunReader(place).config()["train"]["participation"]) if layout.is_run(place) else None


def _partition(path: Path, data: str | None) -> Tally:
    from fedskew.data import artefact, registry
    from fedskew.data.partition import counts

    if data is None:
        raise ConfigError(
            f"{path}: a partition says which examples a client has, not their labels. Name the dataset: "
            "--data digits."
        )
    pool = registry.load(data)
    labels = pool.y.numpy()
    train = artefact.load(path, labels).partition.train
    return Tally(counts(labels, train, len(pool.classes)), pool.classes)


def _configured(path: Path) -> Tally:
    from fedskew import build
    from fedskew.config import load

    config = load(path)
    plan = build.experiment(config)
    data = plan.dataset()
    counts = plan.federation(data, config.seeds[0]).counts.numpy()
    return Tally(counts, data.classes, config.train.participation)


def _checked(tally: Tally, path: Path) -> Tally:
    table = tally.counts
    if (
        table.ndim != 2
        or table.shape[1] != len(tally.classes)
        or min(table.shape) < 1
        or len(tally.classes) < 2
    ):
        raise DataError(
            f"{path}: one line a client and one column a class are needed, for two classes or more."
        )
    if (table < 0).any() or not table.sum():
        raise DataError(f"{path}: counts must not be negative, nor all of them 0.")
    return tally
