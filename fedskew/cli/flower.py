"""Commands that deploy on Flower: init, local, run."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console
from fedskew.errors import ConfigError

if TYPE_CHECKING:
    from fedskew.config import Config

flower = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Deploy on Flower: real clients, real machines."
)
app.add_typer(flower, name="flower")

File = Annotated[Path, typer.Argument(help="A configuration; `fedskew new` writes one.")]
Override = Annotated[list[str] | None, typer.Option("-s", "--set", help="Replace a setting: -s train.lr=0.1")]


@flower.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the new app.")],
    config: Annotated[
        Path | None, typer.Option("--config", help="A configuration; default: that of `fedskew new`.")
    ] = None,
    set: Override = None,
) -> None:
    """Write a Flower app that runs as it is; fill in where the clients' examples are."""
    from fedskew.flower.app import PACKAGE, write

    write(folder, _config(config, set or []))
    console.print(f"wrote {folder}. Where the examples are: {folder / PACKAGE / 'data.py'}")
    console.print(
        f"Try it here: fedskew flower local {folder / PACKAGE / 'experiment.toml'}; deploy: docs/deploy.md"
    )


@flower.command()
def local(
    config: File,
    set: Override = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="SuperNodes.")] = 4,
    out: Annotated[Path, typer.Option("--out", help="The folder of runs.")] = Path("runs"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run that is there.")] = False,
) -> None:
    """Run a configuration on a SuperLink and SuperNodes on this machine, with TLS and node keys."""
    _need_flower()
    from fedskew.flower import local as deployed

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is then ended, as by Ctrl-C
    deployed.run(_config(config, set or []), nodes, out, resume, console.print)


@flower.command()
def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the app.")],
    link: Annotated[
        str | None, typer.Option("--superlink", help="The connection in Flower's configuration.")
    ] = None,
    run_dir: Annotated[str | None, typer.Option("--run-dir", help="Where the server keeps the run.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run that is there.")] = False,
) -> None:
    """Submit an app to a SuperLink that runs, and show its log."""
    _need_flower()
    from fedskew.flower.submit import submit

    if link is None:
        console.print(
            "no --superlink is named: Flower takes the default connection of its own configuration."
        )
    raise typer.Exit(submit(folder, link, run_dir, resume))


def _config(path: Path | None, overrides: list[str]) -> Config:
    import tomllib

    from fedskew.config import load, parse
    from fedskew.template import TEMPLATE

    if path is not None:
        return load(path, overrides)
    if overrides:
        raise ConfigError("-s replaces settings of a configuration: name one with --config.")
    return parse(tomllib.loads(TEMPLATE), "the template")


def _need_flower() -> None:
    from importlib.util import find_spec

    if find_spec("flwr") is None:
        raise ConfigError(f"Flower is not installed: {sys.executable} -m pip install 'fedskew[flower]'.")
