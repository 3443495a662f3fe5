"""Commands that look and do not run: ls, show, partition, methods, models, datasets, new, doctor."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console, table
from fedskew.errors import ConfigError, DiskError

Out = Annotated[Path, typer.Option("--out", help="The folder of runs.")]


@app.command()
def methods(
    wide: Annotated[
        bool, typer.Option("--wide", help="Also the slots filled and what leaves the client.")
    ] = False,
) -> None:
    """List the methods: what each is, what leaves the client, what it costs."""
    import json

    rows = json.loads((files("fedskew") / "ledger.json").read_text(encoding="utf-8"))
    words = ["slots", "leaves"] if wide else []
    cells = [
        [row["name"], row["about"], _cited(row), *(row[word] for word in words)]
        + [f"{row[key]:.3g}" for key in ("down", "up", "state")]
        for row in rows
    ]
    heads = ["slots filled", "leaves the client"] if wide else []
    table(["method", "what it is", "paper", *heads, "down", "up", "kept"], cells, right=3 + len(heads))
    console.print("down, up, kept: numbers sent to, sent by and kept by a client, in FedAvg models.")
    console.print("Join methods with '+', e.g. fedlc+scaffold. Slots and privacy: fedskew methods --wide.")


def _cited(row: dict[str, Any]) -> str:
    return f"{row['paper']} {row['year']}" if row["paper"] else ""


@app.command()
def models() -> None:
    """List the networks."""
    from fedskew.models.registry import MODELS

    table(["model", "what it is"], [[name, entry.about] for name, entry in MODELS.items()], right=2)


@app.command()
def datasets() -> None:
    """List the datasets."""
    from fedskew.data.registry import DATASETS

    table(["dataset", "what it is"], [[name, entry.about] for name, entry in DATASETS.items()], right=2)


@app.command()
def new(file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("experiment.toml")) -> None:
    """Write a commented configuration that runs as it is."""
    from fedskew.template import TEMPLATE

    if file.exists():
        raise ConfigError(f"{file} exists already. Choose another name.")
    try:
        file.write_text(TEMPLATE, encoding="utf-8")
    except OSError as error:
        raise DiskError(f"{file}: cannot be written: {error.strerror}.") from error
    console.print(f"wrote {file}. Run it with: fedskew run {file}")


@app.command()
def ls(out: Out = Path("runs")) -> None:
    """List the runs."""
    from fedskew import listing

    rows = listing.rows(out)
    if not rows:
        console.print(f"no runs in {out}. Start one: fedskew demo, or fedskew new and fedskew run.")
        return
    table(["run", "method", "seed", "rounds", "global", "personalised", "state"], rows, right=3)


@app.command()
def show(place: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]) -> None:
    """Show one run: settings, last metrics, events."""
    from fedskew import listing

    for line in listing.details(place):
        console.print(line, markup=False)


@app.command()
def partition(
    config: Annotated[Path, typer.Argument(help="A configuration; its \\[data] and \\[split] are used.")],
    set: Annotated[
        list[str] | None, typer.Option("-s", "--set", help="Replace a setting: -s split.beta=0.1")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the split.")] = 0,
    picture: Annotated[Path | None, typer.Option("--picture", help="Also write an HTML picture.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Also save the partition itself.")] = None,
) -> None:
    """Show who owns what: client by class bubbles."""
    from fedskew import bubbles, build
    from fedskew.config import load

    experiment = build.experiment(load(config, set or []))
    data = experiment.dataset()
    made = experiment.partition(data, seed)
    for line in bubbles.lines(made, data):
        console.print(line, markup=False, no_wrap=True)
    if picture:
        bubbles.picture(made, data, picture)
        console.print(f"picture: {picture}")
    if save:
        bubbles.save(experiment, made, data, seed, save)
        console.print(f"saved: {save}; use it with -s split.file={save}")
