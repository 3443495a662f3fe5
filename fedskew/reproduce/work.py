"""Runs what is missing: several runs at once, or one on all cores; resumable, until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from itertools import filterfalse
from pathlib import Path
from typing import NamedTuple, cast

from fedskew import parallel, prolong, runs
from fedskew.config import Config
from fedskew.cores import cores
from fedskew.errors import FedskewError
from fedskew.experiment import Session
from fedskew.parallel import News
from fedskew.reproduce import code, collect, studies
from fedskew.reproduce.cells import Cell, folder, start
from fedskew.reproduce.recipe import Recipe
from fedskew.reproduce.results import Entry, is_whole
from fedskew.store import layout
from fedskew.store.run import RunStore

Tell = Callable[[News], None]


class Job(NamedTuple):
    """One seed of one cell and where it is kept."""

    cell: Cell
    seed: int
    place: Path


class _TimeUpError(Exception):
    """Raised between two rounds; the last one of a run is committed."""


def jobs(cells: Sequence[Cell], seeds: Sequence[int], out: Path) -> list[Job]:
    """Every seed of the cells, one seed of all of them before the next; common runs once."""
    found = [Job(cell, seed, folder(cell, seed, out)) for seed in seeds for cell in cells]
    return list({job.place: job for job in reversed(found)}.values())[::-1]


def missing(recipe: Recipe, jobs: Sequence[Job], kept: Sequence[Entry], fresh: bool = False) -> list[Job]:
    """What neither a run nor a kept result has brought in whole; with `fresh` also what other code has made."""
    makers = {(*entry.key, entry.config): entry.code for entry in kept if is_whole(recipe, entry)}

    def is_due(job: Job) -> bool:
        maker = makers.get((job.cell.name, job.cell.scale, job.seed, job.cell.digest))
        if is_at_its_end(job):
            maker = collect.outcome(job.place).code
        return maker is None or (fresh and maker != code.version(job.cell.config, bool(job.cell.study)))

    return [job for job in jobs if is_due(job)]


def with_starts(jobs: Sequence[Job], out: Path) -> list[Job]:
    """The jobs, and before them the runs that studies begin with and that are not here, kept results or not."""
    begun = [(start(job.cell), job.seed) for job in jobs]
    starts = [Job(cell, seed, folder(cell, seed, out)) for cell, seed in begun if cell]
    return list({job.place: job for job in (*filterfalse(is_at_its_end, starts), *jobs)}.values())


def is_at_its_end(job: Job) -> bool:
    """Whether the run itself is here and complete."""
    return collect.outcome(job.place).state in ("done", "diverged")


def begin(job: Job) -> Path:
    """The folder of the job's run, begun or as it was left, with a note of the code that goes on with it."""
    config, out = job.cell.seeded(job.seed), job.place.parent.parent
    quick = quick_run(job)
    place = prolong.begin(quick, config, job.seed, out) if quick else runs.ensure(config, job.seed, out)
    with RunStore.open(place) as store:
        store.log_event(collect.CODE, {"code": code.version(config)})
    return place


def quick_run(job: Job) -> Path | None:
    """The quick run of the same cell and code, where it has done the first rounds of one not yet begun."""
    config, place = job.cell.seeded(job.seed), job.place.parents[1] / job.cell.quick_run / job.place.name
    fits = not layout.is_run(job.place) and prolong.is_beginning(place, config, job.seed)
    return place if fits and collect.outcome(place).code == code.version(config) else None


def set_aside(job: Job) -> None:
    """Renames a run that other code has made, so that it can be made again."""
    if job.place.exists():
        taken = len(list(job.place.parent.glob(f"{job.place.name}.old*")))
        job.place.rename(job.place.with_name(f"{job.place.name}.old{taken}"))


def carry_on(places: Sequence[Path], workers: int, deadline: float, tell: Tell) -> None:
    """Trains the runs until they end or the time is up; every round is told and none is lost."""
    count = workers or cores()
    if min(count, len(places)) <= 1:
        _in_turn(places, count, deadline, tell)
        return
    news = cast("Generator[News, None, None]", parallel.carry_on(places, count))
    with closing(news):
        for one in news:
            tell(one)
            if time.monotonic() >= deadline:
                return


def _in_turn(places: Sequence[Path], processes: int, deadline: float, tell: Tell) -> None:
    def session(config: Config, place: Path) -> Session:
        if processes > 1 and config.engine.name == "serial":  # a pool gives the same bits, sooner
            config = config.changed({"engine.name": "pool", "engine.workers": processes})
        return runs.session(config, place)

    def on_round(place: Path, done: int, rounds: int) -> None:
        tell(News(place, done, rounds))
        if done < rounds and time.monotonic() >= deadline:
            raise _TimeUpError

    for place in places:
        if time.monotonic() >= deadline:
            return
        try:
            runs.carry_on(place, on_round, session)
        except _TimeUpError:
            return
        except FedskewError as error:
            tell(News(place, 0, 0, error))


def study(job: Job, deadline: float, tell: Tell) -> None:
    """Makes a study of one cell, which is kept when it is complete."""

    def on_round(news: News) -> None:
        tell(news)
        if news.done < news.rounds and time.monotonic() >= deadline:
            raise _TimeUpError

    try:
        studies.conduct(job.cell, job.cell.seeded(job.seed), job.place, on_round)
    except _TimeUpError:
        return
    except FedskewError as error:
        tell(News(job.place, 0, 0, error))
