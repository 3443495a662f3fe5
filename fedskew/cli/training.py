"""Training seen from the command line: progress, the table so far, what failed, and the table at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from fedskew.cli.screen import Progress, console, grid, table
from fedskew.errors import FedskewError

if TYPE_CHECKING:
    from fedskew.parallel import News
    from fedskew.results import Result, Results, Row
    from fedskew.track import Trackers


def finish(
    places: Sequence[Path],
    workers: int,
    as_json: bool,
    page: Path | None = None,
    trackers: Trackers | None = None,
) -> None:
    """Trains the runs to their ends and prints what came out; raises the first error at the end."""
    from fedskew import parallel, runs
    from fedskew.results import Results
    from fedskew.track import Trackers

    total = sum(runs.rounds_left(place) for place in places)
    with trackers or Trackers(()) as trackers:
        try:
            with Progress("training", total) as progress:
                seen = _Seen(progress, trackers, show_so_far=len(places) > 1)
                parallel.follow(places, seen.tell, workers)
        except KeyboardInterrupt:
            console.print("\nInterrupted; every finished round is saved. Continue with:")
            console.print(f"  fedskew resume {_common(places)}", markup=False)
            raise typer.Exit(130) from None
    failed = _failed(places, seen.failed)
    show(Results(tuple(runs.read(place) for place in places if place not in failed)), as_json)
    if page is not None:
        from fedskew.report.page import write

        write(places, page)
        console.print(f"report: {page}")
    _complain(trackers, failed)


@dataclass
class _Seen:
    """What the runs have told so far."""

    progress: Progress
    trackers: Trackers
    show_so_far: bool
    failed: dict[Path, FedskewError] = field(default_factory=dict)
    complete: list[Result] = field(default_factory=list)

    def tell(self, news: News) -> None:
        """Takes one piece of news."""
        if news.error:
            self.failed[news.place] = news.error
            return
        self.trackers.follow(news.place)
        if self.show_so_far and self.progress.live and news.done == news.rounds:
            self._add(news.place)
        self.progress.advance(f"{news.place.parent.name} seed {news.place.name}")

    def _add(self, place: Path) -> None:
        from fedskew import runs
        from fedskew.results import Results

        self.complete.append(runs.read(place))
        self.progress.so_far = comparison(Results(tuple(self.complete)), "complete so far, per cent")


def _failed(places: Sequence[Path], told: dict[Path, FedskewError]) -> dict[Path, FedskewError]:
    """What was told, and the runs that ended without a word; each is noted in its run."""
    from fedskew import failures, runs

    lost = {
        place: FedskewError(f"its process ended unexpectedly. Continue with: fedskew resume {place}")
        for place in places
        if place not in told and runs.rounds_left(place)
    }
    for place, error in {**told, **lost}.items():
        failures.note_failure(place, error)
    return {**told, **lost}


def _complain(trackers: Trackers, failed: dict[Path, FedskewError]) -> None:
    for place, why in trackers.failures.items():
        console.print(f"not tracked: {place}: {'; '.join(why)}", markup=False)
    for place, error in failed.items():
        console.print(f"failed: {place}: {error}", markup=False)
    if failed:
        raise next(iter(failed.values()))


def _common(places: Sequence[Path]) -> str:
    parents = {place.parent for place in places}
    return " ".join(sorted(str(parent) for parent in parents))


def show(results: Results, as_json: bool) -> None:
    """Prints the table of a comparison: mean ± std over seeds of the last ten rounds, best in bold."""
    rows = results.summary()
    if as_json:
        console.print(json.dumps([_plain(row) for row in rows], indent=1), markup=False, soft_wrap=True)
        return
    seeds = max((row.seeds for row in rows), default=0)
    title = f"per cent, mean of the last ten rounds ± std over {seeds} seeds"
    columns, cells = _cells(results)
    table(columns, cells, title)


def comparison(results: Results, title: str) -> Table:
    """The same table, to be shown while runs go on."""
    columns, cells = _cells(results)
    return grid(columns, cells, title)


def _cells(results: Results) -> tuple[list[str], list[list[str]]]:
    from fedskew.results import HEADLINES

    best = {metric: results.best(metric) for metric in HEADLINES}
    cells = [
        [row.method, *(_cell(row, metric, best[metric]) for metric in HEADLINES)] for row in results.summary()
    ]
    return ["method", *HEADLINES.values()], cells


def _cell(row: Row, metric: str, best: str | None) -> str:
    text = row.text(metric)
    return f"[bold]{text}[/bold]" if best == row.method else text


def _plain(row: Row) -> dict[str, object]:
    values = {name: value._asdict() for name, value in row.values.items()}
    return {"method": row.method, "seeds": row.seeds, "values": values}
