"""Commands that show: report writes a page, watch serves it live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console

Open = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]


@app.command()
def report(
    places: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders of runs.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("report.html"),
    open: Open = False,
) -> None:
    """Write one page about runs: the answer, the skew, curves, classes, clients, settings."""
    from fedskew import runs
    from fedskew.report.page import write

    write(runs.find(places), output)
    console.print(f"report: {output}", markup=False)
    if open:
        _browse(output.resolve().as_uri())


@app.command()
def watch(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0: any free one.")] = 0,
    out: Annotated[Path, typer.Option("--out", help="The folder of runs.")] = Path("runs"),
    open: Open = False,
) -> None:
    """Show runs live in the browser, on this machine only; Ctrl-C ends it."""
    from fedskew.errors import ConfigError
    from fedskew.report.watch import Watch, address, server

    watched = Watch(out)
    try:
        serving = server(watched, port)
    except OSError as error:
        raise ConfigError(f"--port {port}: cannot be used: {error.strerror}. Leave --port out.") from None
    with serving:
        console.print(f"{address(watched, serving)}\nWatching {out}; Ctrl-C ends it.", markup=False)
        if open:
            _browse(address(watched, serving))
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            console.print("")


def _browse(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        console.print("No browser was found; open the address above.")
