"""What `ls` and `show` say of runs; nothing here imports torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedskew import naming
from fedskew.config import MethodTable
from fedskew.errors import FedskewError
from fedskew.failures import has_diverged
from fedskew.store import layout
from fedskew.store.lock import Owner
from fedskew.store.reader import RunReader

RUNNING, RESUMABLE = "running", "resumable"


def rows(out: Path) -> list[list[str]]:
    """A line for every run."""
    return [row(place, out) for place in layout.runs_in(out)]


def row(place: Path, out: Path) -> list[str]:
    """One run: name, method, seed, rounds, global and personalised accuracy, state."""
    name = str(place.relative_to(out))
    try:
        reader = RunReader(place)
        config, records = reader.config(), reader.metrics()
        done = reader.round()
    except FedskewError as error:
        return [name, "", "", "", "", "", f"unreadable: {error}"]
    rounds = config["train"]["rounds"]
    finished = 0 if done is None else done + 1
    state = "complete" if finished == rounds else RUNNING if is_going(place) else RESUMABLE
    if state == RESUMABLE and has_diverged(reader):
        state = "diverged"
    shown = [_percent(records, "global.accuracy"), _percent(records, "personal.accuracy")]
    method, seed = MethodTable.model_validate(config["method"]).title, config["seeds"][0]
    return [name, method, str(seed), f"{finished}/{rounds}", *shown, state]


def is_going(place: Path) -> bool:
    """Whether the process that holds the run's lock is alive."""
    try:
        said = json.loads((place / layout.LOCK).read_bytes())
        return Owner(int(said["pid"]), said["started"], str(said["host"])).alive()
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return False


def details(place: Path) -> list[str]:
    """Everything worth knowing of one run."""
    reader = RunReader(place)
    records = reader.metrics()
    last: dict[str, Any] = {}
    for record in records:
        last |= {key: value for key, value in record.items() if isinstance(value, int | float)}
    lines = [f"run {place}", "", *reader.file(layout.CONFIG).decode().splitlines(), "", "last values"]
    lines += [f"  {key:32} {value:.6g}" for key, value in sorted(last.items())]
    lines += ["", "events"]
    names = naming.recorded(reader)
    lines += [
        _told(event, names) for event in reader.events() if event.get("event") not in ("round", "opened")
    ]
    return lines


def _told(event: dict[str, Any], names: Sequence[str]) -> str:
    if isinstance(who := event.get("client"), int):
        event = {**event, "client": naming.label(names, who)}
    detail = ", ".join(f"{key} {value}" for key, value in event.items() if key not in ("event", "at"))
    return f"  {event.get('at', '')}  {event.get('event', '')}  {detail}".rstrip()


def _percent(records: list[dict[str, Any]], metric: str) -> str:
    found = [record[metric] for record in records if record.get(metric) is not None]
    return f"{100 * found[-1]:.1f}" if found else "-"
