"""Runs without training, for the tests of the report: every number is made up, every file is real."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedskew.config import Config, parse
from fedskew.runs import CENSUS, folder
from fedskew.store.run import RunStore

LEVELS = {"fedavg": 0.6, "fedprox": 0.62, "fedlc": 0.8, "scaffold": 0.7, "map": 0.75, "grpfed": 0.65}
LAST_TEN = 10


def settings(method: str, rounds: int = 12, clients: int = 6, name: str = "") -> Config:
    table = {
        "name": name or method,
        "split": {"scheme": "labels", "clients": clients, "per_client": 2},
        "method": {"preset": method},
        "train": {"rounds": rounds},
    }
    return parse(table, "a test")


def make(
    out: Path,
    config: Config,
    seed: int = 0,
    rounds: int | None = None,
    classes: Sequence[str] = ("cat", "dog", "owl", "fox"),
    events: Sequence[tuple[str, dict[str, object]]] = (),
    names: Sequence[str] | None = None,
) -> Path:
    """A run with made-up records of so many rounds; all by default."""
    place = folder(config, seed, out)
    own = config.changed({"seeds": [seed]})
    clients = int(config.split.options["clients"])
    counts = [
        [5 * (c in (k % len(classes), (k + 1) % len(classes))) for c in range(len(classes))]
        for k in range(clients)
    ]
    census = {"classes": list(classes), "train": counts, "test": counts, "novel": []}
    census |= {} if names is None else {"clients": list(names)}
    files = {CENSUS: json.dumps(census).encode()}
    with RunStore.create(place, own.toml(), {"python": "3", "threads": 1}, files) as store:
        add_rounds(store, own, len(classes), 0, config.train.rounds if rounds is None else rounds)
        for name, detail in events:
            store.log_event(name, detail)
    return place


def add_rounds(store: RunStore, config: Config, classes: int, first: int, last: int) -> None:
    """Writes the rounds from `first` up to but without `last`, and commits them."""
    clients = int(config.split.options["clients"])
    for number in range(first, last):
        record, marks = _round(config, classes, clients, number)
        store.log_metrics(record)
        store.log_clients([marks] if marks else [])
        store.log_event("round", {"round": number, "seconds": 0.5, "participants": 2, "peak_bytes": 10**8})
    if last > first:
        store.save(last - 1, {"shared": {"w": torch.zeros(2)}}, {})


def level(config: Config, number: int) -> float:
    """The made-up accuracy: a level for the method, a little for the seed, less at the beginning."""
    base = LEVELS.get(config.method.preset, 0.5) + 0.01 * config.seeds[0]
    return base * min(1.0, (number + 1) / 10)


def _round(config: Config, classes: int, clients: int, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    value = level(config, number)
    random = np.random.default_rng([number, config.seeds[0]])
    per_class = np.clip(value + random.normal(0, 0.05, classes), 0, 1).tolist()
    record: dict[str, Any] = {
        "round": number,
        "participants": [number % clients, (number + 1) % clients],
        "train.loss": 2 / (number + 1),
        "bytes.down": 1000,
        "bytes.up": 500,
        "global.accuracy": value,
        "global.macro_f1": value - 0.02,
        "global.per_class": per_class,
    }
    if config.method.preset == "grpfed":
        record["state.AdaptivePower.q"] = 10.0 - 0.1 * number
    if number + 1 == config.train.rounds:
        record["global.confusion"] = (np.eye(classes, dtype=int) * 8 + 1).tolist()
    last = number >= config.train.rounds - LAST_TEN
    return (
        (record | _personal(value, per_class), _marks(number, clients, value, per_class))
        if last
        else (record, {})
    )


def _personal(value: float, per_class: list[float]) -> dict[str, Any]:
    return {
        "personal.accuracy": 1 - value / 4,
        "personal.worst10": 0.5,
        "personal.drift": value / 2,
        "personal.majority": 0.9,
        "personal.minority": None,
        "personal.missing": value / 3,
        "before.per_class": per_class,
        "update.cosine": 0.1,
    }


def _marks(number: int, clients: int, value: float, per_class: list[float]) -> dict[str, Any]:
    own = [round(max(0.0, 1 - k / (2 * clients)), 4) for k in range(clients)]
    return {
        "round": number,
        "clients": list(range(clients)),
        "trained.accuracy": own,
        "trained.drift": [value / 2] * clients,
        "trained.per_class": [[share / 2 for share in per_class] for _ in range(clients)],
    }
