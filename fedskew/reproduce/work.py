"""Runs what is missing: several runs at once, resumable, until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

from fedskew import parallel, runs
from fedskew.errors import FedskewError
from fedskew.parallel import News
from fedskew.reproduce import code, collect, studies
from fedskew.reproduce.cells import Cell, folder
from fedskew.store.run import RunStore

Tell = Callable[[News], None]


class Job(NamedTuple):
    """One seed of one cell and where it is kept."""

    cell: Cell
    seed: int
    place: Path


class _TimeUpError(Exception):
    """Raised between two rounds; the last one is committed."""


def jobs(cells: Sequence[Cell], seeds: Sequence[int], out: Path) -> list[Job]:
    """Every seed of the cells, one seed of all of them before the next; common runs once."""
    found = [Job(cell, seed, folder(cell, seed, out)) for seed in seeds for cell in cells]
    return list({job.place: job for job in reversed(found)}.values())[::-1]


def is_missing(job: Job, fresh: bool = False) -> bool:
    """Whether there is something to run; with `fresh` also where other code was at work."""
    found = collect.outcome(job.place)
    if found.state in ("new", "begun"):
        return True
    return fresh and found.code != code.version(job.cell.config)


def begin(job: Job) -> Path:
    """The folder of the job's run, begun or as it was left, with a note of the code that goes on with it."""
    config = job.cell.seeded(job.seed)
    place = runs.ensure(config, job.seed, job.place.parent.parent)
    with RunStore.open(place) as store:
        store.log_event(collect.CODE, {"code": code.version(config)})
    return place


def set_aside(job: Job) -> None:
    """Renames a run that other code has made, so that it can be made again."""
    if job.place.exists():
        taken = len(list(job.place.parent.glob(f"{job.place.name}.old*")))
        job.place.rename(job.place.with_name(f"{job.place.name}.old{taken}"))


def carry_on(places: Sequence[Path], workers: int, deadline: float, tell: Tell) -> None:
    """Trains the runs until they end or the time is up; every round is told and none is lost."""
    count = min(workers or parallel.cores(), len(places))
    if count <= 1:
        _in_turn(places, deadline, tell)
        return
    news = cast("Generator[News, None, None]", parallel.carry_on(places, count))
    with closing(news):
        for one in news:
            tell(one)
            if time.monotonic() >= deadline:
                return


def _in_turn(places: Sequence[Path], deadline: float, tell: Tell) -> None:
    def on_round(place: Path, done: int, rounds: int) -> None:
        tell(News(place, done, rounds))
        if done < rounds and time.monotonic() >= deadline:
            raise _TimeUpError

    for place in places:
        if time.monotonic() >= deadline:
            return
        try:
            runs.carry_on(place, on_round)
        except _TimeUpError:
            return
        except FedskewError as error:
            tell(News(place, 0, 0, error))


def study(job: Job, tell: Tell) -> None:
    """Makes a study of one cell, which is kept when it is complete."""
    config = job.cell.seeded(job.seed)
    try:
        studies.conduct(job.cell, config, job.place, tell)
    except FedskewError as error:
        tell(News(job.place, 0, 0, error))
