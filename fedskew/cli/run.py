"""Commands that train: demo, run, compare, resume."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import Progress, console, table
from fedskew.errors import ConfigError, FedskewError

if TYPE_CHECKING:
    from fedskew.config import Config
    from fedskew.results import Results

File = Annotated[Path, typer.Argument(help="A configuration; `fedskew new` writes one.")]
Override = Annotated[list[str] | None, typer.Option("-s", "--set", help="Replace a setting: -s train.lr=0.1")]
Seeds = Annotated[
    str | None, typer.Option("--seeds", help="Seeds: 0:3 or 0,1,2. Default: the configuration's.")
]
Out = Annotated[Path, typer.Option("--out", help="The folder of runs.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Workers = Annotated[int, typer.Option("--workers", min=0, help="Runs at once; 0: one per core.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print the resolved settings, write nothing.")
]
RUNS = Path("runs")
DEMO = ("fedavg", "fedprox", "scaffold", "fedlc", "fedrs", "fedova", "fedabc", "map")


@app.command()
def run(
    config: File,
    set: Override = None,
    seeds: Seeds = None,
    out: Out = RUNS,
    workers: Workers = 0,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Run one configuration under its seeds."""
    from fedskew.config import load

    loaded = load(config, set or [])
    chosen = _seeds(seeds, loaded.seeds)
    if dry_run:
        _dry(loaded)
        return
    _start([(loaded, seed) for seed in chosen], out, workers, json)


@app.command()
def compare(
    config: File,
    methods: Annotated[str, typer.Option("--methods", help="Methods, e.g. fedavg,fedlc+scaffold,map.")],
    set: Override = None,
    seeds: Seeds = None,
    out: Out = RUNS,
    workers: Workers = 0,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Run several methods on the same data, split, initial model and participants."""
    from fedskew.config import load

    loaded = load(config, set or [])
    each = [_with(loaded, name.strip()) for name in methods.split(",") if name.strip()]
    if not each:
        raise ConfigError("--methods names no method. `fedskew methods` lists them.")
    if dry_run:
        for one in each:
            _dry(one)
        return
    _start([(one, seed) for one in each for seed in _seeds(seeds, loaded.seeds)], out, workers, json)


@app.command()
def resume(
    places: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders of runs.")],
    workers: Workers = 0,
    json: Json = False,
) -> None:
    """Continue interrupted runs to exactly what they would have been."""
    from fedskew import runs

    _finish(runs.find(places), workers, json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder of runs.")] = RUNS / "demo",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds: 0:3 or 0,1,2.")] = "0:3",
    workers: Workers = 0,
    json: Json = False,
) -> None:
    """Eight methods on scikit-learn's digits: 20 clients with two labels each."""
    from fedskew import runs
    from fedskew.demo import config

    jobs = [(config(method), seed) for method in DEMO for seed in _seeds(seeds, ())]
    console.print("Digits over 20 clients with two labels each: what does each method make of it?")
    places = [runs.ensure(one, seed, out) for one, seed in jobs]
    _finish(places, workers, json, page=out / "report.html")


def _with(config: Config, method: str) -> Config:
    return config.changed({"method.preset": method, "name": f"{config.name}-{method}"})


def _dry(config: Config) -> None:
    from fedskew import build

    build.experiment(config)
    console.print(config.toml(), markup=False)


def _start(jobs: Sequence[tuple[Config, int]], out: Path, workers: int, as_json: bool) -> None:
    from fedskew import runs

    for config, seed in jobs:
        runs.refuse_existing(config, seed, out)
    _finish([runs.begin(config, seed, out) for config, seed in jobs], workers, as_json)


def _finish(places: Sequence[Path], workers: int, as_json: bool, page: Path | None = None) -> None:
    from fedskew import parallel, runs
    from fedskew.results import Results

    total = sum(runs.rounds_left(place) for place in places)
    failed: dict[Path, FedskewError] = {}
    try:
        with Progress("training", total) as progress:
            for news in parallel.carry_on(places, workers):
                if news.error:
                    failed[news.place] = news.error
                else:
                    progress.advance(f"{news.place.parent.name} seed {news.place.name}")
    except KeyboardInterrupt:
        console.print(
            f"\nInterrupted; every finished round is saved. Continue with:\n  fedskew resume {_common(places)}"
        )
        raise typer.Exit(130) from None
    results = Results(tuple(runs.read(place) for place in places if place not in failed))
    show(results, as_json)
    if page is not None:
        from fedskew.report.page import write

        write(places, page)
        console.print(f"report: {page}")
    for place, error in failed.items():
        console.print(f"failed: {place}: {error}", markup=False)
    if failed:
        raise next(iter(failed.values()))


def _common(places: Sequence[Path]) -> str:
    parents = {place.parent for place in places}
    return " ".join(sorted(str(parent) for parent in parents))


def show(results: Results, as_json: bool) -> None:
    """Prints the table of a comparison: mean ± std over seeds of the last ten rounds, best in bold."""
    from fedskew.results import HEADLINES

    rows = results.summary()
    if as_json:
        console.print(json.dumps([row.plain() for row in rows], indent=1), markup=False, soft_wrap=True)
        return
    best = {metric: results.best(metric) for metric in HEADLINES}
    cells = [
        [
            row.method,
            *(f"[bold]{row.text(m)}[/bold]" if best[m] == row.method else row.text(m) for m in HEADLINES),
        ]
        for row in rows
    ]
    seeds = max((row.seeds for row in rows), default=0)
    table(
        ["method", *HEADLINES.values()],
        cells,
        f"per cent, mean of the last ten rounds ± std over {seeds} seeds",
    )


def _seeds(text: str | None, default: Sequence[int]) -> Sequence[int]:
    if text is None:
        return default
    try:
        if ":" in text:
            first, last = text.split(":")
            found: Sequence[int] = range(int(first or 0), int(last))
        else:
            found = [int(piece) for piece in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {text}: write 0:3 (0, 1, 2) or 0,1,2.") from None
    if not found or min(found) < 0:
        raise ConfigError(f"--seeds {text}: names no seed. Write 0:3 (0, 1, 2) or 0,1,2.")
    return found
