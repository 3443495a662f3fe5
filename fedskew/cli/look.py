"""Commands that look and do not run: ls, show, partition, methods, models, datasets, new, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console, table

Out = Annotated[Path, typer.Option("--out", help="The folder of runs.")]


@app.command()
def methods() -> None:
    """List the methods: what each fills, what leaves the client, what it costs."""
    from fedskew.catalogue import METHODS

    rows = [
        [m.name, m.paper, str(m.year), m.about, m.slots, m.leaves, f"{m.down:.2g}x", f"{m.up:.2g}x", f"{m.state:.2g}x"]
        for m in METHODS.values()
    ]
    columns = ["method", "paper", "year", "what it is", "slots", "leaves the client", "down", "up", "client state"]
    table(columns, rows, right=6)
    console.print("down, up, client state: bytes relative to FedAvg's model. Join methods with '+': fedlc+scaffold.")


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
    from fedskew.atomic import write_new
    from fedskew.template import TEMPLATE

    write_new(file, TEMPLATE.encode())
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
