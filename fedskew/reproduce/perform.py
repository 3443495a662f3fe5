"""From a recipe to results: what is missing, what it costs, and getting it done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fedskew import runs
from fedskew.errors import DataError, FedskewError
from fedskew.parallel import News
from fedskew.reproduce import cost, work
from fedskew.reproduce.work import Job
from fedskew.store import layout
from fedskew.store.reader import RunReader

Say = Callable[[str], None]


class Task(NamedTuple):
    """A job, and the seconds of one of its rounds on one core."""

    job: Job
    round: float

    @property
    def seconds(self) -> float:
        """Of the rounds that are left."""
        return self.round * rounds(self.job)


class Plan(NamedTuple):
    """What is to be done, and what cannot be done here."""

    tasks: tuple[Task, ...]
    refused: tuple[tuple[Job, FedskewError], ...]

    @property
    def seconds(self) -> float:
        """All of them one after another."""
        return sum(task.seconds for task in self.tasks)

    def until(self, budget: float) -> list[Task]:
        """As many tasks as the seconds are good for, and one more for each that goes faster than thought."""
        out, used = [], 0.0
        for task in self.tasks:
            if used > 1.2 * budget:
                break
            out.append(task)
            used += task.seconds
        return out


def plan(jobs: Sequence[Job], say: Say) -> Plan:
    """Times one client of every kind of job; a dataset that is not there refuses its jobs."""
    tasks: list[Task] = []
    refused: list[tuple[Job, FedskewError]] = []
    errors: dict[str, FedskewError] = {}
    for job in jobs:
        key = cost.key(job.cell.config)
        if key not in errors:
            if cost.known(job.cell) is None:
                say(f"timing one client of {job.cell.recipe} {job.cell.name}")
            try:
                seconds = cost.seconds(job.cell.config, cost.measured(job.cell))
                tasks.append(Task(job, seconds / job.cell.config.train.rounds))
                continue
            except DataError as error:
                errors[key] = error
        refused.append((job, errors[key]))
    return Plan(tuple(tasks), tuple(refused))


def rounds(job: Job) -> int:
    """How many rounds are left of a job; one that is at its end is made again."""
    whole = job.cell.config.train.rounds
    if job.cell.study or work.is_at_its_end(job):
        return whole
    if layout.is_run(job.place):
        return runs.rounds_left(job.place)
    quick = work.quick_run(job)
    return whole if quick is None else whole - len(RunReader(quick).metrics())


def perform(jobs: Sequence[Job], workers: int, deadline: float, tell: Callable[[News], None]) -> None:
    """Does the jobs, runs before the studies that may start from them; errors are told, not raised."""
    places: list[Path] = []
    for job in jobs:
        if job.cell.study:
            continue
        try:
            places.append(work.begin(job))
        except FedskewError as error:
            tell(News(job.place, 0, 0, error))
    if places:
        work.carry_on(places, workers, deadline, tell)
    for job in jobs:
        if job.cell.study and time.monotonic() < deadline:
            work.study(job, deadline, tell)
