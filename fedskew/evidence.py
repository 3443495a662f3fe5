"""What was measured on federations like this one: cells of the recipes with their results."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedskew import stats
from fedskew.config import Config
from fedskew.data.partition import Natural, scheme, split, summary
from fedskew.data.partition.measure import counts
from fedskew.errors import FedskewError
from fedskew.reproduce import cells, load, results
from fedskew.reproduce.cells import Cell
from fedskew.reproduce.results import Entry
from fedskew.stats import Mean

CLASSES = {"cifar100": 100, "femnist": 62, "imagenet-subset": 12, "mit-bih": 12}
PUBLISHED = ("digits", "mnist", "fashion-mnist", "cifar10", "svhn", "cinic10", "kws", *CLASSES)
NEAR = (0.15, 0.25)  # how far distance and missing share may be from another federation's
BASE = "fedavg"


class Setting(NamedTuple):
    """A federation on which methods were compared."""

    recipe: str
    row: str
    label: str  # data and split in words
    distance: float
    missing: float


class Finding(NamedTuple):
    """One method in one setting, beside FedAvg."""

    setting: Setting
    method: str
    metric: str
    value: Mean
    base: Mean  # over the same seeds
    configs: frozenset[str] = frozenset()  # digests of both settings

    @property
    def gain(self) -> float:
        """By how much it is above FedAvg."""
        return self.value.mean - self.base.mean


def gather(folder: Path, metrics: Sequence[str]) -> list[Finding]:
    """Everything in the results that can be held against FedAvg under the same skew."""
    found: dict[tuple[str, frozenset[str]], Finding] = {}
    for name in load.names():
        entries = results.read(name, folder)
        if entries:
            for one in findings(cells.cells(load.load(name)), entries, metrics):
                found.setdefault((one.metric, one.configs), one)  # tables and figures share runs
    return list(found.values())


def findings(known: Iterable[Cell], entries: Iterable[Entry], metrics: Sequence[str]) -> list[Finding]:
    """The results of these cells, row by row."""
    done: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.status == "done" and entry.scale == "full":
            done[entry.cell].append(entry)
    rows: defaultdict[str, dict[str, Cell]] = defaultdict(dict)
    for cell in known:
        if cell.name in done and not cell.study:
            rows[cell.row].setdefault(cell.config.method.preset, cell)
    return [one for row in rows.values() if BASE in row for m in metrics for one in _row(row, done, m)]


def _row(row: dict[str, Cell], done: dict[str, list[Entry]], metric: str) -> Iterable[Finding]:
    where = _setting(row[BASE])
    if where is None:
        return
    for method, cell in row.items():
        sides = [_by_seed(done[one.name], metric) for one in (cell, row[BASE])]
        seeds = sorted(sides[0].keys() & sides[1].keys())
        if seeds:
            value, base = (stats.summarise([side[seed] for seed in seeds]) for side in sides)
            configs = frozenset(entry.config for one in (cell, row[BASE]) for entry in done[one.name])
            yield Finding(where, method, metric, value, base, configs)


def _by_seed(entries: Sequence[Entry], metric: str) -> dict[int, float]:
    found = {entry.seed: entry.values.get(f"{metric}.mean10", math.nan) for entry in entries}
    return {seed: value for seed, value in found.items() if not math.isnan(value)}


def _setting(cell: Cell) -> Setting | None:
    table = cell.config.split
    skew = _skew(cell.config)
    if skew is None:
        return None
    options = ", ".join(f"{key} = {value}" for key, value in table.options.items())
    return Setting(cell.recipe, cell.row, f"{cell.config.data.name}, {table.scheme} ({options})", *skew)


def _skew(config: Config) -> tuple[float, float] | None:
    """Distance and missing share of the split, dealt over a pool with equally many examples of each class."""
    table = config.split
    if config.data.name not in PUBLISHED or table.file or table.centralised or table.shared_data:
        return None
    return _dealt(table.scheme, tuple(sorted(table.options.items())), CLASSES.get(config.data.name, 10))


@cache
def _dealt(name: str, options: tuple[tuple[str, object], ...], classes: int) -> tuple[float, float] | None:
    try:
        made = scheme(name, dict(options))
        if isinstance(made, Natural):
            return None
        clients = dict(options).get("clients", 100)
        each = max(200, 50 * int(str(clients)) // classes)
        labels = np.repeat(np.arange(classes), each)
        test = np.arange(0, len(labels), 5)
        train = np.setdiff1d(np.arange(len(labels)), test)
        dealt = split(made, labels, train, test, seed=0)
    except (FedskewError, ValueError):
        return None
    found = summary(counts(labels, dealt.train, classes))
    return found.distance, found.missing


def like(found: Iterable[Finding], distance: float, missing: float) -> list[Finding]:
    """Those whose skew is near."""
    return [
        one
        for one in found
        if abs(one.setting.distance - distance) <= NEAR[0] and abs(one.setting.missing - missing) <= NEAR[1]
    ]
