"""Trackers: what runs write is passed on to other people's dashboards.

They read along in the process that waits for the runs, so training does not know of them; one that fails is
left alone from then on, and the run says so in its events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from fedskew import failures
from fedskew.errors import ConfigError, unknown
from fedskew.sinks import KINDS, Begin, Sink, Values
from fedskew.store import layout
from fedskew.store.reader import RunReader

PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow-skinny"}
EVENT = "tracker failed"


class Tracker(NamedTuple):
    """One place to which every run is passed on."""

    spec: str  # as the person wrote it
    opened: Callable[[Begin], Sink]


class Trackers:
    """All trackers of a set of runs; closed by `with`."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = trackers
        self._sinks: dict[Path, dict[str, Sink]] = {}
        self._read: dict[Path, int] = {}  # bytes of the metrics that were passed on
        self.failures: dict[Path, list[str]] = {}

    def follow(self, place: Path) -> None:
        """Passes on what the run has written since it was last asked."""
        if self._trackers:
            self._guarded(place, "", partial(self._pass_on, place))

    def _pass_on(self, place: Path) -> None:
        if place not in self._sinks:
            self._open(place)
        for record in self._news(place):
            round, values = int(record["round"]) + 1, numbers(record)
            for spec, sink in list(self._sinks[place].items()):
                self._guarded(place, spec, partial(sink.log, round, values))

    def _open(self, place: Path) -> None:
        config = RunReader(place).config()
        run = Begin(config["name"], int(config["seeds"][0]), config)
        self._sinks[place] = {}
        for tracker in self._trackers:
            self._guarded(place, tracker.spec, partial(self._add, place, tracker, run))

    def _add(self, place: Path, tracker: Tracker, run: Begin) -> None:
        self._sinks[place][tracker.spec] = tracker.opened(run)

    def _guarded(self, place: Path, spec: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # other people's code: whatever it raises, the run goes on
            self._sinks.setdefault(place, {}).pop(spec, None)
            why = f"{spec or 'tracking'}: {type(error).__name__}: {error}"
            known = self.failures.setdefault(place, [])
            known += [why] if why not in known else []

    def _news(self, place: Path) -> list[dict[str, Any]]:
        start = self._read.get(place, 0)
        with (place / layout.METRICS).open("rb") as file:
            file.seek(start)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]  # the last line may still be on its way
        self._read[place] = start + len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def __enter__(self) -> Trackers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place, sinks in self._sinks.items():
            for spec, sink in list(sinks.items()):
                self._guarded(place, spec, sink.close)
        for place, why in self.failures.items():
            failures.note(place, EVENT, {"why": why})


def open_all(specs: Sequence[str]) -> Trackers:
    """The trackers named as `kind:where`; one that is not installed is refused before anything runs."""
    return Trackers([_tracker(spec) for spec in specs])


def _tracker(spec: str) -> Tracker:
    kind, _, where = spec.partition(":")
    if kind not in KINDS:
        raise ConfigError(unknown("tracker", kind, KINDS))
    if not where:
        raise ConfigError(f"--track {spec}: say where to: tensorboard:DIR, wandb:PROJECT or mlflow:DIR.")
    try:
        import_module(kind)
    except ImportError as error:
        raise ConfigError(
            f"--track {spec}: the package {PACKAGES[kind]} is not installed: pip install 'fedskew[track]'."
        ) from error
    return Tracker(spec, lambda run: KINDS[kind](run, where))


def numbers(record: Mapping[str, Any]) -> Values:
    """The finite numbers of a record, those of every class among them."""
    found: Values = {}
    for key, value in record.items():
        if key.endswith(".per_class"):
            found |= {f"{key}/{label}": item for label, item in enumerate(value) if item is not None}
        elif isinstance(value, int | float) and key != "round" and math.isfinite(value):
            found[key] = float(value)
    return found
