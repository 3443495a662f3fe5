"""The command line called in this process: torch is loaded once, not once a command."""

import contextlib
import io
import sys
from typing import NamedTuple
from unittest import mock

from rich.console import Console

from fedskew.cli import main, screen


class Done(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def fedskew(*words: str) -> Done:
    """Runs `fedskew words...`."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["fedskew", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def works(*words: str) -> str:
    """What a command prints that must succeed."""
    done = fedskew(*words)
    assert done.code == 0, (words, done.out, done.err)
    return done.out


def on_a_terminal() -> Console:
    """A console that believes it is a terminal, and remembers."""
    return Console(file=io.StringIO(), force_terminal=True, width=100, highlight=False)


__all__ = ["Done", "fedskew", "on_a_terminal", "screen", "works"]
