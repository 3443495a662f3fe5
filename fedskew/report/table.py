"""A table that is shown, sorted and taken away as CSV or LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from fedskew.stats import Mean

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run a cell that begins so
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "--",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


class Cell(NamedTuple):
    """What is shown, the number it is sorted by if it is one, and whether it stands out."""

    text: str
    number: float | None = None
    strong: bool = False
    spread: float | None = None  # a column of its own in the CSV


class Table(NamedTuple):
    """Columns and rows with a title and one sentence on how to read them."""

    id: str
    title: str
    how: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    hidden: int = 0  # rows that only the CSV has, at the end

    @property
    def shown(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows on the page."""
        return self.rows[: len(self.rows) - self.hidden]

    def csv(self) -> str:
        """Every row, one line each; numbers without units, deviations in columns of their own."""
        wide = [any(row[i].spread is not None for row in self.rows) for i in range(len(self.columns))]
        names = [
            [name, f"{name} std"] if two else [name] for name, two in zip(self.columns, wide, strict=True)
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([_harmless(name) for pair in names for name in pair])
        for row in self.rows:
            cells = [_plain(cell, two) for cell, two in zip(row, wide, strict=True)]
            writer.writerow([text for pair in cells for text in pair])
        return out.getvalue()

    def latex(self) -> str:
        """A tabular in the style of booktabs."""
        numbers = [all(row[i].number is not None for row in self.rows) for i in range(len(self.columns))]
        lines = [
            r"\begin{tabular}{" + "".join("r" if number else "l" for number in numbers) + "}",
            r"\toprule",
        ]
        lines += [" & ".join(map(escape_latex, self.columns)) + r" \\", r"\midrule"]
        lines += [" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.shown]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def link(self, form: str) -> str:
        """The table as an address that needs no server."""
        kind, text = ("text/csv", self.csv()) if form == "csv" else ("application/x-tex", self.latex())
        return data_link(kind, text)


def data_link(kind: str, text: str) -> str:
    """A text as an address that needs no server."""
    return f"data:{kind};charset=utf-8,{quote(text)}"


def escape_latex(text: str) -> str:
    """The text with every character that TeX would act on made harmless."""
    return "".join(_LATEX.get(character, character) for character in text)


def text(value: object, strong: bool = False) -> Cell:
    """A cell of words."""
    return Cell(str(value), None, strong)


def number(value: float | None, pattern: str = "{:.1f}", scale: float = 1.0, strong: bool = False) -> Cell:
    """A cell that is sorted as a number; a dash where there is none."""
    if value is None or math.isnan(value):
        return Cell("–")
    return Cell(pattern.format(scale * value), scale * value, strong)


def percent(value: float | None, strong: bool = False) -> Cell:
    """A share as per cent."""
    return number(value, "{:.1f}", 100.0, strong)


def spread(mean: Mean, strong: bool = False) -> Cell:
    """Mean and deviation over seeds of a share, in per cent."""
    if math.isnan(mean.mean):
        return Cell("–")
    if math.isnan(mean.std):
        return percent(mean.mean, strong)
    value, std = 100 * mean.mean, 100 * mean.std
    return Cell(f"{value:.1f} ± {std:.1f}", value, strong, std)


def size(count: float | None) -> Cell:
    """Bytes in a unit a person can read."""
    if count is None or math.isnan(count):
        return Cell("–")
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while abs(value) >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    shown = f"{value:.0f}" if units[0] == "B" or value >= 100 else f"{value:.3g}"
    return Cell(f"{shown} {units[0]}", float(count))


def make(id: str, title: str, how: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """A table from any sequences."""
    return Table(id, title, how, tuple(columns), tuple(tuple(row) for row in rows))


def _plain(cell: Cell, wide: bool) -> list[str]:
    first = _harmless(cell.text) if cell.number is None else f"{cell.number:.6g}"
    spread = "" if cell.spread is None else f"{cell.spread:.6g}"
    return [first, spread] if wide else [first]


def _harmless(value: str) -> str:
    return f"'{value}" if value.startswith(_FORMULA) else value


def _latex(cell: Cell) -> str:
    shown = escape_latex(cell.text)
    return rf"\textbf{{{shown}}}" if cell.strong else shown
