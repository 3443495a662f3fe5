"""The entry point: commands, and errors as sentences with exit codes."""

import sys

import typer

from fedskew import __version__
from fedskew.errors import FedskewError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Federated learning when clients do not see the same classes.",
    epilog="Exit codes: 0 ok, 2 configuration, 3 data, 4 diverged, 5 disk, 6 locked, 130 interrupted.",
)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        print(f"fedskew {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command line."""
    from fedskew.cli import advice, bench, data, flower, look, report, reproduce, run, use  # noqa: F401  (they add commands)

    try:
        app(prog_name="fedskew")
    except FedskewError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
