"""Commands about what is there: data ls, get, check, path; doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console, errors, table

if TYPE_CHECKING:
    from fedskew.config import Config

data = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Datasets on this machine: ls, get, check, path."
)
app.add_typer(data, name="data")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A dataset, or a configuration whose \\[data] names one.")
]
Dir = Annotated[Path | None, typer.Option("--dir", help="Where its files are; default $FEDSKEW_DATA.")]
Override = Annotated[list[str] | None, typer.Option("-s", "--set", help="Replace a setting: -s train.lr=0.1")]


class Wanted(NamedTuple):
    """A dataset as the person named it."""

    name: str
    options: dict[str, Any]
    folder: Path | None


def _wanted(name: str, folder: Path | None) -> Wanted:
    if not name.endswith(".toml"):
        return Wanted(name, {}, folder)
    from fedskew.config import load

    named = load(Path(name)).data
    return Wanted(named.name, named.options, folder or (Path(named.dir) if named.dir else None))


@data.command("ls")
def ls(folder: Dir = None) -> None:
    """List the datasets and where their files are; nothing is fetched."""
    from fedskew.data import manage

    rows = [
        [line.name, line.state, line.about, str(line.place or ""), ", ".join(line.options)]
        for line in manage.listing(folder)
    ]
    table(["dataset", "state", "what it is", "where", "options"], rows, right=5)
    console.print("absent: `fedskew data get NAME` fetches it. yours: set its options in the table `data`.")


@data.command()
def get(name: Name, folder: Dir = None) -> None:
    """Fetch what is missing, check its hashes, prepare it for fast loading."""
    from fedskew.data import manage

    wanted = _wanted(name, folder)
    with _bars() as progress:
        found = manage.get(wanted.name, wanted.folder, wanted.options, progress)
    size = "x".join(map(str, found.x.shape[1:]))
    console.print(
        f"{wanted.name}: {len(found.train)} training and {len(found.test)} test examples of {size} numbers "
        f"in {len(found.classes)} classes.",
        soft_wrap=True,
    )


@data.command()
def check(name: Name, folder: Dir = None) -> None:
    """Read the files afresh, verify their hashes and count what is in them."""
    from fedskew.data import manage

    wanted = _wanted(name, folder)
    with _bars() as progress:
        found = manage.check(wanted.name, wanted.folder, wanted.options, progress)
    rows = [[label, str(found.train[label]), str(found.test[label])] for label in found.train]
    rows.append(["all", str(sum(found.train.values())), str(sum(found.test.values()))])
    table(["class", "training", "test"], rows)
    owners = "no owners" if found.clients is None else f"{found.clients} natural clients"
    console.print(f"{found.name}: examples of {'x'.join(map(str, found.shape))} numbers, {owners}.")
    for path, digest in found.files:
        console.print(f"sha256 {digest}  {path}", markup=False, soft_wrap=True)


@data.command()
def path(name: Name, folder: Dir = None) -> None:
    """Print the files a dataset is read from, one a line."""
    from fedskew.data import manage

    wanted = _wanted(name, folder)
    files = manage.where(wanted.name, wanted.folder, wanted.options)
    for file in files:
        print(file)
    if not files:
        errors.print(f"{wanted.name} has no files: it comes with a package or is made up.")


@app.command()
def doctor(
    config: Annotated[Path, typer.Argument(help="A configuration; it is not run.")],
    set: Override = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the split.")] = 0,
) -> None:
    """Say before a run where a method can do nothing or is known to be unstable, and why."""
    from fedskew.config import load

    found = _warnings(load(config, set or []), seed)
    for warning in found:
        console.print(f"- {warning}", markup=False, soft_wrap=True)
    if not found:
        console.print("nothing to warn of.")
    for line in _machine():
        console.print(line, markup=False, soft_wrap=True)


def _warnings(config: Config, seed: int) -> list[str]:
    from fedskew import build
    from fedskew.doctor import warnings
    from fedskew.engines.device import check

    plan = build.experiment(config)
    check(config.engine.device)
    federation = plan.federation(plan.dataset(), seed)
    method = plan.algorithm(federation, seed).method
    return warnings(method, federation.counts[list(federation.trainers)], plan.training, plan.solver)


def _machine() -> Iterator[str]:
    import torch

    from fedskew.cores import cores
    from fedskew.kernels import build

    ray = "ray" if find_spec("ray") else "ray (not installed: pip install 'fedskew[ray]')"
    yield f"engines: serial, vectorised, pool on {cores()} cores, {ray}; torch {torch.__version__}."
    yield f"native kernels: {build.status()}."


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """Progress bars on a terminal, one for each thing that is being done; nothing elsewhere."""
    from rich.progress import Progress, TaskID

    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as shown:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what)
            shown.update(tasks[what], completed=done, total=total or None)

        yield tell
