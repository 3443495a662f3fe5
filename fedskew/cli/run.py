"""Commands that train: demo, run, compare, resume."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console, errors
from fedskew.cli.training import finish
from fedskew.errors import ConfigError

if TYPE_CHECKING:
    from fedskew.config import Config

File = Annotated[Path, typer.Argument(help="A configuration; `fedskew new` writes one.")]
Override = Annotated[list[str] | None, typer.Option("-s", "--set", help="Replace a setting: -s train.lr=0.1")]
Seeds = Annotated[
    str | None, typer.Option("--seeds", help="Seeds: 0:3 or 0,1,2. Default: the configuration's.")
]
Out = Annotated[Path, typer.Option("--out", help="The folder of runs.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Workers = Annotated[int, typer.Option("--workers", min=0, help="Runs at once; 0: one per core.")]
Engine = Annotated[
    str | None,
    typer.Option("--engine", help="Where clients are simulated: auto, serial, vectorised, pool or ray."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print the resolved settings, write nothing.")
]
Track = Annotated[
    list[str] | None,
    typer.Option("--track", help="Also to tensorboard:DIR, wandb:PROJECT or mlflow:DIR; can be repeated."),
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
    track: Track = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Run one configuration under its seeds."""
    from fedskew.config import load

    loaded = load(config, set or [])
    chosen = seeds_of(seeds, loaded.seeds)
    if dry_run:
        _dry([(loaded, seed) for seed in chosen], out)
        return
    from fedskew.track import open_all

    trackers = open_all(track or [])
    finish(_begun([(loaded, seed) for seed in chosen], out), workers, json, trackers=trackers)


@app.command()
def compare(
    config: File,
    methods: Annotated[str, typer.Option("--methods", help="Methods, e.g. fedavg,fedlc+scaffold,map.")],
    set: Override = None,
    seeds: Seeds = None,
    out: Out = RUNS,
    workers: Workers = 0,
    over: Annotated[
        str | None, typer.Option("--over", help="Repeat under several skews: --over split.beta=0.1,0.5")
    ] = None,
    engine: Engine = None,
    track: Track = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Begin what is missing, continue what is there.")
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Continue only those of the runs that failed.")
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Run several methods on the same data, split, initial model and participants."""
    from fedskew.config import load

    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise ConfigError("--methods names no method. `fedskew methods` lists them.")
    given = [*(set or []), *([f"engine.name={engine}"] if engine else [])]
    varied = {value: load(config, [*given, *filter(None, [value])]) for value in _values(over)}
    each = [_with(one, name, names, value) for value, one in varied.items() for name in names]
    jobs = [(one, seed) for one in each for seed in seeds_of(seeds, one.seeds)]
    if dry_run:
        _dry(jobs, out, again=resume or failed)
        return
    from fedskew.track import open_all

    trackers = open_all(track or [])
    places = _again(jobs, out, only_failed=failed) if resume or failed else _begun(jobs, out)
    if failed and not places:
        console.print("none of these runs has failed.")
        return
    # A cluster has its own workers: one run after the other uses all of it, and joins it once.
    at_once = 1 if all(one.engine.name == "ray" for one in each) and not workers else workers
    finish(places, at_once, json, trackers=trackers)


@app.command()
def resume(
    places: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders of runs.")],
    workers: Workers = 0,
    json: Json = False,
) -> None:
    """Continue interrupted runs to exactly what they would have been."""
    from fedskew.store import layout
    from fedskew.store.lock import refuse_if_owned

    for place in places:  # told at once, before torch is loaded
        if layout.is_run(place) and (place / layout.LOCK).is_file():
            refuse_if_owned(place / layout.LOCK)
    from fedskew import runs

    finish(runs.find(places), workers, json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder of runs.")] = RUNS / "demo",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds: 0:3 or 0,1,2.")] = "0:3",
    workers: Workers = 0,
    json: Json = False,
) -> None:
    """Eight methods on scikit-learn's digits: 20 clients with two labels each."""
    from fedskew import parallel

    parallel.prepare()
    from fedskew import runs
    from fedskew.demo import config

    jobs = [(config(method), seed) for method in DEMO for seed in seeds_of(seeds, ())]
    console.print("Digits over 20 clients with two labels each: what does each method make of it?")
    places = [runs.ensure(one, seed, out) for one, seed in jobs]
    finish(places, workers, json, page=out / "report.html")


def _values(over: str | None) -> list[str]:
    """The overrides `key=value` that a comparison is repeated under; one empty one where there are none."""
    if over is None:
        return [""]
    key, _, values = over.partition("=")
    split = re.split(r",(?![^\[]*\])", values)  # but not within a list
    found = [f"{key.strip()}={value.strip()}" for value in split if value.strip()]
    if not found or not key.strip():
        raise ConfigError(f"--over {over}: write a setting and its values: --over split.beta=0.1,0.5.")
    return found


def _with(config: Config, method: str, among: Sequence[str], value: str = "") -> Config:
    """The configuration with another method; what are settings of the others' parts is not put into it."""
    from fedskew.methods import compose

    key, _, text = value.partition("=")
    suffix = f"-{key.rpartition('.')[2]}{text.replace(',', '-')}" if value else ""
    name = re.sub(r"[^A-Za-z0-9.+_-]", "", f"{config.name}-{method}{suffix}")
    own, *others = (
        {part.name for part in compose(one).parts} for one in (method, config.method.preset, *among)
    )
    foreign = [part for part in config.method.options if part not in own and part in set().union(*others)]
    if foreign:
        errors.print(
            f"{method} is compared without {', '.join(foreign)}, which it does not have", markup=False
        )
    return config.without_parts(foreign).changed({"method.preset": method, "name": name})


def _refuse_twice(jobs: Sequence[tuple[Config, int]]) -> None:
    names = [f"{config.name}, seed {seed}" for config, seed in jobs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ConfigError(f"{twice} is asked for twice: name every method, value and seed once.")


def _dry(jobs: Sequence[tuple[Config, int]], out: Path, again: bool = False) -> None:
    from fedskew import runs

    _refuse_twice(jobs)
    if not again:
        _refuse_taken(jobs, out)
    for config in {config.name: config for config, _ in jobs}.values():
        seeds = [seed for one, seed in jobs if one.name == config.name]
        runs.plan(config, seeds[0], out)
        console.print(config.changed({"seeds": seeds}).toml(), markup=False)


def _refuse_taken(jobs: Sequence[tuple[Config, int]], out: Path) -> None:
    from fedskew import runs

    for config, seed in jobs:
        runs.refuse_existing(config, seed, out)


def _begun(jobs: Sequence[tuple[Config, int]], out: Path) -> list[Path]:
    from fedskew import runs

    _refuse_twice(jobs)
    _refuse_taken(jobs, out)
    settled: dict[str, dict[str, Any]] = {}
    plans = []  # nothing is written if one is refused
    for config, seed in jobs:
        setting = _setting(config)
        plans.append(
            runs.plan(config.changed({"engine": settled.get(setting, config.engine.model_dump())}), seed, out)
        )
        # What `auto` picks for the first run of a comparison holds for all: other engines round differently.
        settled[setting] = asdict(plans[-1].engine)
    if any(config.engine.name == "auto" for config, _ in jobs):
        picked = dict.fromkeys(f"{plan.engine.name} ({plan.engine.backend})" for plan in plans)
        errors.print(f"engine auto: {', '.join(picked)}", markup=False)
    return [plan.begin() for plan in plans]


def _again(jobs: Sequence[tuple[Config, int]], out: Path, only_failed: bool) -> list[Path]:
    """Runs begun where they are missing; or only those that are there and failed."""
    from fedskew import failures, runs
    from fedskew.store import layout

    _refuse_twice(jobs)
    if only_failed:
        there = [(c, s) for c, s in jobs if layout.is_run(runs.folder(c, s, out))]
        jobs = [(c, s) for c, s in there if failures.why(runs.folder(c, s, out)) is not None]
    places = [runs.folder(config, seed, out) for config, seed in jobs]
    settled: dict[str, dict[str, Any]] = {}
    for (config, _), place in zip(jobs, places, strict=True):
        if layout.is_run(place):
            settled.setdefault(_setting(config), runs.engine(place))
    for (config, seed), place in zip(jobs, places, strict=True):
        same = settled.get(_setting(config)) if config.engine.name == "auto" else None
        runs.ensure(config.changed({"engine": same}) if same else config, seed, out)
        settled.setdefault(_setting(config), runs.engine(place))
    return places


def _setting(config: Config) -> str:
    """What the runs of a comparison have in common, but for their methods."""
    tables = config.without_parts(config.method.options)
    return tables.changed({"name": "any", "method.preset": "fedavg", "seeds": [0]}).toml()


def seeds_of(text: str | None, default: Sequence[int]) -> Sequence[int]:
    """The seeds that 0:3 or 0,1,2 names, or the default."""
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
