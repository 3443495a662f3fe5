"""What is printed: one console, tables, and progress that is calm on a terminal and plain elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", right: int = 1) -> None:
    """Prints a table; columns from the `right`-th on are numbers."""
    shown = Table(title=title or None, box=SIMPLE, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        shown.add_column(column, justify="right" if index >= right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    if console.is_terminal:
        console.print(shown)
    else:
        Console(width=200, highlight=False).print(shown)


class Progress:
    """How far a set of jobs is: one live line on a terminal, a plain line every few seconds elsewhere."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total, self.done = title, total, 0
        self.started = self.printed = time.monotonic()
        self.live = console.is_terminal

    def __enter__(self) -> Progress:
        return self

    def advance(self, note: str, by: int = 1) -> None:
        """Counts `by` more rounds and shows the note."""
        self.done += by
        now = time.monotonic()
        if self.live:
            console.print(self._line(now, note), end="\r", overflow="ellipsis", no_wrap=True)
        elif now - self.printed > 5 or self.done == self.total:
            self.printed = now
            console.print(self._line(now, note).rstrip())

    def _line(self, now: float, note: str) -> str:
        share = self.done / max(1, self.total)
        left = (now - self.started) * (1 - share) / max(share, 1e-9)
        text = (
            f"{self.title} {100 * share:3.0f} %  {self.done}/{self.total} rounds  {_clock(left)} left  {note}"
        )
        return text.ljust(min(console.width - 1, 110))

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            console.print(" " * min(console.width - 1, 110), end="\r")


def _clock(seconds: float) -> str:
    whole = int(seconds + 0.5)
    return f"{whole // 60}:{whole % 60:02d}"
