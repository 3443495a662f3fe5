"""From the folder of a run or of a study to what is kept of it. Nothing here imports torch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedskew.errors import DataError
from fedskew.naming import CENSUS
from fedskew.reproduce import downloads, meetings, results
from fedskew.reproduce.cells import Cell
from fedskew.reproduce.recipe import Recipe
from fedskew.reproduce.reduce import named_round, reducer
from fedskew.reproduce.results import Entry
from fedskew.results import Result
from fedskew.store import diary, layout
from fedskew.store.reader import RunReader

State = Literal["new", "begun", "done", "diverged"]
Record = dict[str, Any]
STUDY = "study.json"
CODE = "code"  # the event that names the code which goes on with a run


class Outcome(NamedTuple):
    """How far a run has come and what it has measured."""

    state: State
    records: tuple[Record, ...] = ()
    seconds: float = 0.0
    code: str = ""


def outcome(place: Path) -> Outcome:
    """What is in the folder of one seed."""
    if (place / STUDY).is_file():
        found = study(place)
        return Outcome(found["status"], tuple(found["records"]), found["seconds"], found["code"])
    if not layout.is_run(place):
        return Outcome("new")
    reader = RunReader(place)
    events, done = reader.events(), reader.round()
    ends = [event["event"] for event in events if event["event"] in ("diverged", "resumed", "finished")]
    rounds = int(reader.config()["train"]["rounds"])
    state: State = "done" if done is not None and done + 1 >= rounds else "begun"
    if ends and ends[-1] == "diverged":
        state = "diverged"
    seconds = math.fsum(event["seconds"] for event in _own(events) if event["event"] == "round")
    makers = dict.fromkeys(event["code"] for event in events if event["event"] == CODE)
    return Outcome(state, tuple(reader.metrics()), seconds, ",".join(makers))


def _own(events: Sequence[Record]) -> Sequence[Record]:
    """Without those of the shorter run that this one began with, which counts for itself."""
    taken = [number for number, event in enumerate(events) if event["event"] == diary.PROLONGED]
    return events[taken[-1] :] if taken else events


def study(place: Path) -> dict[str, Any]:
    """What a study has written."""
    try:
        found: dict[str, Any] = json.loads((place / STUDY).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{place / STUDY}: cannot be read ({error}). Remove it and run the cell again."
        ) from error
    return found


def entry(recipe: Recipe, cell: Cell, seed: int, place: Path) -> Entry | None:
    """The line of the results for one seed; None while it is not at its end."""
    found = outcome(place)
    if found.state not in ("done", "diverged"):
        return None
    values = {} if found.state == "diverged" else _values(recipe, _complete(recipe, found.records, place))
    return Entry(
        *(cell.name, cell.scale, seed, found.state, len(found.records)),
        *(cell.digest, found.code, found.seconds, values),
    )


def _complete(recipe: Recipe, records: Sequence[Record], place: Path) -> Sequence[Record]:
    """With what is made of a run's records, its clients' and its census, where the recipe asks for it."""
    wanted = {*recipe.metrics, *(score.metric for score in recipe.scores.values())}
    if wanted & {meetings.RARE, meetings.OFTEN}:
        records = meetings.add(records, json.loads(RunReader(place).file(CENSUS))["train"])
    if downloads.KEPT in wanted:
        records = downloads.add(records, RunReader(place).clients())
    return records


def _values(recipe: Recipe, records: Sequence[Record]) -> dict[str, float]:
    result = Result("", "", 0, tuple(records))
    values = {}
    for key in results.keys(recipe):
        metric, _, name = key.rpartition(".")
        number = named_round(name)
        values[key] = reducer(name)(result.series(metric)) if number is None else _at(records, number, metric)
    return values


def _at(records: Sequence[Record], number: int, metric: str) -> float:
    """What was measured after this round, from 1."""
    found = [record.get(metric) for record in records if record["round"] + 1 == number]
    return math.nan if not found or found[0] is None else float(found[0])
