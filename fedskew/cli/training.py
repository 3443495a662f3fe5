"""Training seen from the command line: progress, the table so far, what failed, and the table at the end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from fedskew.cli.screen import Progress, console, errors, grid, table
from fedskew.errors import DivergedError, FedskewError

if TYPE_CHECKING:
    from fedskew.parallel import News
    from fedskew.report.gather import Seen
    from fedskew.results import Results, Row
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
    from fedskew.track import Trackers

    total = sum(runs.rounds_left(place) for place in places)
    with trackers or Trackers(()) as trackers:
        try:
            with (
                terminated_is_interrupted(),
                Progress("training", total, errors if as_json else console) as progress,
            ):
                seen = _Seen(progress, trackers, show_so_far=len(places) > 1)
                parallel.follow(places, seen.tell, workers)
        except KeyboardInterrupt:
            console.print("\nInterrupted; every finished round is saved. Continue with:")
            console.print(f"  fedskew resume {_common(places)}", markup=False)
            raise typer.Exit(130) from None
    failed = _failed(places, seen.failed)
    _results([place for place in places if _counts(failed.get(place))], as_json)
    if page is not None:
        from fedskew.report.page import write

        write(places, page)
        console.print(f"report: {page}")
    _complain(trackers, failed, errors if as_json else console)


@contextmanager
def terminated_is_interrupted() -> Iterator[None]:
    """A scheduler's SIGTERM ends training as Ctrl-C does: saved, with the command that continues it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class _Seen:
    """What the runs have told so far."""

    progress: Progress
    trackers: Trackers
    show_so_far: bool
    failed: dict[Path, FedskewError] = field(default_factory=dict)
    complete: list[Seen] = field(default_factory=list)

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
        """Shows the table of the setting that has one more complete run."""
        from fedskew.report import gather
        from fedskew.report.study import study

        self.complete.append(gather.read(place))
        for setting in study(self.complete).settings:
            if any(run.place == place for arm in setting.arms for run in arm.runs):
                columns, cells = _cells(setting.results)
                self.progress.so_far = grid(columns, cells, f"complete so far, per cent {setting.label}")


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


def _complain(trackers: Trackers, failed: dict[Path, FedskewError], screen: Console) -> None:
    for place, why in trackers.failures.items():
        screen.print(f"not tracked: {place}: {'; '.join(why)}", markup=False)
    for place, error in failed.items():
        screen.print(f"failed: {place}: {error}", markup=False)
    if failed:
        raise next(iter(failed.values()))


def _common(places: Sequence[Path]) -> str:
    parents = {place.parent for place in places}
    return " ".join(sorted(str(parent) for parent in parents))


def _counts(error: FedskewError | None) -> bool:
    """Whether a run has a place in the table; one that diverged has an empty one, so that no mean hides it."""
    return error is None or isinstance(error, DivergedError)


def _results(places: Sequence[Path], as_json: bool) -> None:
    """Prints a table for every setting: mean ± std over seeds of the last ten rounds, best in bold."""
    from fedskew.report import gather
    from fedskew.report.study import study

    seen = [gather.read(place) for place in places]
    settings = study(seen).settings if any(run.records or run.diverged for run in seen) else ()
    if as_json:
        rows = [{"setting": one.label, **row.plain()} for one in settings for row in one.results.summary()]
        console.print(json.dumps(rows, indent=1), markup=False, soft_wrap=True)
        return
    for setting in settings:
        seeds = max(row.seeds for row in setting.results.summary())
        spread = f" ± std over {seeds} seeds" if seeds > 1 else ", one seed"
        rounds = setting.first.config.train.rounds
        title = f"per cent, mean of {'the last ten' if rounds > 10 else f'all {rounds}'} rounds{spread}"
        columns, cells = _cells(setting.results)
        table(columns, cells, f"{setting.label}: {title}" if setting.label else title)
        for caution in setting.results.cautions():
            console.print(caution, markup=False)


def _cells(results: Results) -> tuple[list[str], list[list[str | Text]]]:
    from fedskew.results import HEADLINES

    best = {metric: results.best(metric) for metric in HEADLINES}
    cells: list[list[str | Text]] = [
        [row.method, *(_cell(row, metric, best[metric]) for metric in HEADLINES)] for row in results.summary()
    ]
    return ["method", *HEADLINES.values()], cells


def _cell(row: Row, metric: str, best: str | None) -> Text:
    return Text(row.text(metric), style="bold" if best == row.method else "")
