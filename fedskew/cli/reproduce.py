"""Commands of the published tables: recipes, reproduce."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from fedskew.cli.main import app
from fedskew.cli.run import seeds_of
from fedskew.cli.screen import Progress, console, table
from fedskew.cli.training import terminated_is_interrupted
from fedskew.errors import ConfigError, FedskewError

if TYPE_CHECKING:
    from fedskew.parallel import News
    from fedskew.reproduce.perform import Task
    from fedskew.reproduce.recipe import Recipe
    from fedskew.reproduce.results import Entry
    from fedskew.reproduce.work import Job


class Size(StrEnum):
    """Whole runs or shorter ones."""

    full = "full"
    quick = "quick"


Names = Annotated[list[str], typer.Argument(metavar="RECIPE...", help="Names, files of your own, or all.")]
Cells = Annotated[list[str] | None, typer.Option("--cells", help="Only these: --cells 'mnist-*,*.fedavg'")]
Tier = Annotated[int | None, typer.Option("--tier", min=1, max=3, help="Only up to this tier.")]
Scale = Annotated[Size, typer.Option("--scale", help="quick: fewer rounds.")]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Seeds: 0:3 or 0,1,2. Default: the recipe's.")]
Workers = Annotated[
    int, typer.Option("--workers", min=0, help="Runs at once; a single run has them all. 0: one per core.")
]
Minutes = Annotated[float | None, typer.Option("--minutes", min=0, help="Stop after these; go on later.")]
Plan = Annotated[bool, typer.Option("--plan", help="Run nothing: say what is missing and what it costs.")]
Show = Annotated[bool, typer.Option("--show", help="Run nothing: show what there is.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Also run again what other code has made.")]
Figures = Annotated[Path | None, typer.Option("--figures", help="Also draw its figures into this folder.")]
Pdf = Annotated[bool, typer.Option("--pdf", help="With --figures: also as PDF (needs fedskew\\[paper]).")]
Out = Annotated[Path, typer.Option("--out", help="The folder of runs.")]
Results = Annotated[Path, typer.Option("--results", help="The folder of results.")]
RESULTS, RUNS = Path("results"), Path("runs")
_SAVED = "every finished round is saved (a study that was cut off begins again). The same command goes on."


class Room(NamedTuple):
    """Where things are and how much may be done."""

    out: Path
    results: Path
    workers: int
    deadline: float


@app.command()
def recipes(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RECIPE]...", help="Show their cells.")
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Time a client of what was not timed.")] = False,
    results: Results = RESULTS,
) -> None:
    """List the published tables and figures: what is done, and what the rest costs on this machine."""
    from fedskew.reproduce import load, overview

    chosen = [load.load(name) for name in names or sorted(load.names())]
    if measure:
        for sentence in overview.measure(chosen, console.print):
            console.print(sentence, markup=False)
    rows = [row for one in chosen for row in overview.rows(one, results, by_cell=bool(names))]
    table(["cell" if names else "recipe", "what", "tier", "done", "missing", "hours", "quick"], rows, right=3)
    for one in chosen if names else []:
        for note in one.notes:
            console.print(f"- {note}", markup=False)
    console.print(
        "hours of the missing runs on one core, from timing one client of each kind; ?: not timed yet"
    )
    console.print("(fedskew recipes --measure) or no data here. quick: the same with fewer rounds.")


@app.command()
def reproduce(
    recipe: Names,
    cells: Cells = None,
    tier: Tier = None,
    scale: Scale = Size.full,
    seeds: Seeds = None,
    workers: Workers = 0,
    minutes: Minutes = None,
    plan: Plan = False,
    show: Show = False,
    fresh: Fresh = False,
    figures: Figures = None,
    pdf: Pdf = False,
    out: Out = RUNS,
    results: Results = RESULTS,
) -> None:
    """Run the missing cells of a published table, compare, and judge its claims."""
    from fedskew.reproduce import load
    from fedskew.reproduce.cells import cells as every
    from fedskew.reproduce.cells import check, select

    if plan and show:
        raise ConfigError("--plan tells what is missing, --show what is there: choose one of them.")
    if pdf and figures is None:
        raise ConfigError("--pdf goes with --figures FOLDER, which says where the figures are to be.")
    room = Room(out, results, workers, time.monotonic() + 60 * (1e9 if minutes is None else minutes))
    patterns = [pattern for given in cells or () for pattern in given.split(",")]
    failed: list[FedskewError] = []
    names = [name for given in recipe for name in (load.names() if given == "all" else [given])]
    chosen = [load.load(name) for name in dict.fromkeys(names)]
    check([cell for one in chosen for cell in every(one)], patterns)
    for one in chosen:
        wanted = seeds_of(seeds, one.seeds)
        if not show:
            from fedskew.reproduce import work
            from fedskew.reproduce.results import read

            jobs = work.jobs(select(every(one, scale.value), patterns, tier), wanted, out)
            due = work.missing(one, jobs, read(one.name, results), fresh)
            failed += _work(one, work.with_starts(due, out), room, wanted, plan)
        if not plan:
            _report(one, room, wanted)
        if figures is not None:
            _draw(one, results, figures, pdf)
    if failed:
        raise failed[0]


def _work(
    recipe: Recipe, jobs: Sequence[Job], room: Room, seeds: Sequence[int], plan_only: bool
) -> list[FedskewError]:
    from fedskew.cores import cores
    from fedskew.reproduce import perform

    if not plan_only and time.monotonic() >= room.deadline:
        console.print(f"{recipe.name}: the time is up.")
        return []
    plan = perform.plan(jobs, lambda text: console.print(text, markup=False))
    count = room.workers or cores()
    hours = plan.seconds / 3600 / count
    console.print(
        f"{recipe.name}: {len(jobs)} run{'s are' if len(jobs) != 1 else ' is'} missing, "
        f"about {hours:.1f} hours with {count} worker{'s' * (count != 1)}"
        + (f" for the {len(plan.tasks)} that can be made here." if plan.refused else ".")
    )
    for error in {str(error) for _, error in plan.refused}:
        console.print(f"not here: {error}", markup=False)
    if plan_only or not plan.tasks:
        return []
    left = room.deadline - time.monotonic()
    return _perform(recipe, plan.until(left * count), room, seeds)


def _perform(recipe: Recipe, tasks: Sequence[Task], room: Room, seeds: Sequence[int]) -> list[FedskewError]:
    from fedskew.reproduce import perform, work
    from fedskew.reproduce.keep import keep_everywhere
    from fedskew.reproduce.results import writable

    failed: list[tuple[Job, FedskewError]] = []
    jobs = [task.job for task in tasks]
    writable(room.results)
    for job in jobs:
        if work.is_at_its_end(job):
            work.set_aside(job)
    by_place = {task.job.place: task for task in tasks}
    total = sum(task.seconds for task in tasks)
    with Progress(recipe.name, sum(map(perform.rounds, jobs)), weight=total) as progress:

        def tell(news: News) -> None:
            job = by_place[news.place].job
            if news.error:
                failed.append((job, news.error))
                console.print(f"failed: {job.cell.name}: {news.place}: {news.error}", markup=False)
            else:
                progress.advance(f"{job.cell.name} seed {job.seed}", by_place[news.place].round)
            if news.done == news.rounds and work.is_at_its_end(job):
                keep_everywhere(job.cell, recipe, room.out, room.results, seeds)

        try:
            with terminated_is_interrupted():
                perform.perform(jobs, room.workers, room.deadline, tell)
        except KeyboardInterrupt:
            console.print(f"\nInterrupted; {_SAVED}")
            raise typer.Exit(130) from None
    if time.monotonic() >= room.deadline:
        console.print(f"\nThe time is up; {_SAVED}")
    return [error for job, error in failed if not work.is_at_its_end(job)]  # one that diverged is a result


def _report(recipe: Recipe, room: Room, seeds: Sequence[int]) -> None:
    from fedskew.reproduce import compare, contest
    from fedskew.reproduce.judge import judge
    from fedskew.reproduce.keep import keep
    from fedskew.reproduce.recipe import BAND

    entries = keep(recipe, room.out, room.results, seeds)
    for score in recipe.tables:
        _table(recipe, entries, score)
    off = f"a ! an accuracy more than {BAND:g} points from the published one"
    none = f"Nothing of it is in {room.results} or {room.out}."
    _unmeasured(recipe, entries)
    console.print(f"A * marks fewer than three seeds, {off}." if entries else none)
    for ranking in contest.rankings(recipe, entries):
        console.print(contest.sentence(recipe, ranking), markup=False)
    for one in judge(recipe, entries):
        marks = f" ({', '.join(one.marks)})" if one.marks else ""
        console.print(f"{one.claim.id} {one.words}{marks}: {one.claim.sentence}", markup=False)
        for contrast in one.tested:
            told = f"claimed {compare.claimed(contrast)}, found {compare.words(contrast)}"
            console.print(f"    {contrast.verdict}: {contrast.label}: {told}", markup=False)


def _unmeasured(recipe: Recipe, entries: Sequence[Entry]) -> None:
    done = [entry for entry in entries if entry.status == "done"]
    for score in recipe.scores.values():
        if done and all(math.isnan(entry.values.get(score.key, math.nan)) for entry in done):
            console.print(f"No run has measured {score.metric!r} ({score.label}).", markup=False)


def _table(recipe: Recipe, entries: Sequence[Entry], score: str) -> None:
    from fedskew.reproduce import compare

    rows = [
        [
            f"{line.row.name}.{line.column.name}",
            line.printed,
            line.found,
            line.difference,
            line.seeds,
            line.scale or "",
        ]
        for line in compare.lines(recipe, entries, score)
        if line.ours is not None or line.published is not None
    ]
    if not rows:
        return
    unit = ", per cent" if recipe.scores[score].percent else ""
    title = f"{recipe.paper}, {recipe.where}: {recipe.scores[score].label}{unit}"
    table(["cell", "published", "ours", "difference", "seeds", "scale"], rows, title)


def _draw(recipe: Recipe, results: Path, folder: Path, pdf: bool) -> None:
    from fedskew.reproduce import draw

    for path in draw.draw(recipe, results, folder, pdf):
        console.print(f"figure: {path}")
