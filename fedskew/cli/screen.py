"""What is printed: one console, tables, and progress that is calm on a terminal and plain elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.box import SIMPLE
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

REDRAW = 0.2  # seconds between two pictures on a terminal
LONG = 30.0  # seconds of a first round that tell what the others take, although it also warms up
console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str | Text]], title: str = "", right: int = 1
) -> None:
    """Prints a table; columns from the `right`-th on are numbers."""
    shown = grid(columns, rows, title, right)
    if console.is_terminal:
        console.print(shown)
    else:
        Console(width=200, highlight=False).print(shown)


def grid(
    columns: Sequence[str], rows: Sequence[Sequence[str | Text]], title: str = "", right: int = 1
) -> Table:
    """A table that is not printed yet; texts stand as they are, whatever signs are in them."""
    above = Text(title, style="table.title") if title else None
    made = Table(title=above, box=SIMPLE, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index >= right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made


class Progress:
    """How far a set of jobs is: one live line on a terminal, a plain line every few seconds elsewhere.

    Where rounds are not alike, each has a weight in the share that is done, and `weight` is that of all.
    """

    def __init__(
        self, title: str, total: int, screen: Console | None = None, weight: float | None = None
    ) -> None:
        self.title, self.total, self.done = title, total, 0
        self.weight, self.gone = total if weight is None else weight, 0.0
        self.screen = screen or console
        self.started = self.printed = time.monotonic()
        self.so_far: Table | None = None
        # It is drawn when there is news, not by a clock of its own.
        self.live = (
            Live(console=self.screen, transient=True, auto_refresh=False) if self.screen.is_terminal else None
        )

    def __enter__(self) -> Progress:
        if self.live:
            self.live.start()
            self._show(f"{self.title}   0 %  0/{self.total} rounds")
        return self

    def advance(self, note: str, weight: float = 1.0) -> None:
        """Counts one more round and shows the note."""
        self.done += 1
        self.gone += weight
        now = time.monotonic()
        wait = REDRAW if self.live else 5.0
        telling = self.done > 1 or now - self.started > LONG
        if (telling and now - self.printed > wait) or self.done == self.total:
            self.printed = now
            self._show(self._line(now, note))

    def _show(self, line: str) -> None:
        if self.live is None:
            self.screen.print(line)
            return
        text = Text(line, no_wrap=True, overflow="ellipsis")
        self.live.update(Group(self.so_far, text) if self.so_far else text, refresh=True)

    def _line(self, now: float, note: str) -> str:
        share = self.gone / max(self.weight, 1e-9)
        left = (now - self.started) * (1 - share) / max(share, 1e-9)
        return (
            f"{self.title} {100 * share:3.0f} %  {self.done}/{self.total} rounds  {_clock(left)} left  {note}"
        )

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()


def _clock(seconds: float) -> str:
    whole = int(seconds + 0.5)
    return f"{whole // 60}:{whole % 60:02d}"
