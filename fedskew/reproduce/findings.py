"""What came out, in a few sentences a paper: the words of findings.md.j2 with the numbers of results/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from statistics import fmean

from jinja2 import Environment, StrictUndefined

from fedskew.reproduce import compare, load
from fedskew.reproduce.compare import Line
from fedskew.reproduce.results import Entry


class _NotRunError(Exception):
    """A paragraph needs a number that is not there yet."""


class Numbers:
    """What the words may ask of a recipe; a cell is row.column, the score its first one if none is named."""

    def __init__(self, recipe: str, entries: Sequence[Entry]) -> None:
        self._recipe, self._entries = load.load(recipe), entries

    def ours(self, cell: str, score: str = "") -> str:
        """Our mean over seeds."""
        line = self._line(cell, score)
        assert line.ours is not None
        return f"{line.ours.mean:.{line.score.digits}f}"

    def printed(self, cell: str, score: str = "") -> str:
        """The published number."""
        return self._line(cell, score).printed

    def printed_gain(self, row: str, more: str, less: str, score: str = "") -> str:
        """By how much a method is published to be better than another."""
        first, second = (self._line(f"{row}.{column}", score) for column in (more, less))
        if first.published is None or second.published is None:
            raise ValueError(f"{self._recipe.name} has nothing published for {row}")
        return f"{first.published.mean - second.published.mean:+.{first.score.digits}f}"

    def gain(self, row: str, more: str, less: str, score: str = "") -> str:
        """By how much a method is better than another: the mean over the seeds that both have, with its sign."""
        first, second = (self._line(f"{row}.{column}", score) for column in (more, less))
        ours, theirs = self._by_seed(first), self._by_seed(second)
        both = ours.keys() & theirs.keys()
        if not both or first.scale != second.scale:
            raise _NotRunError
        return f"{fmean(ours[seed] - theirs[seed] for seed in both):+z.{first.score.digits}f}"

    def seeds(self, cell: str) -> str:
        """How many the cell has, in words."""
        line = self._line(cell, "")
        assert line.ours is not None
        return "one seed" if line.ours.n == 1 else f"{line.ours.n} seeds"

    def over(self, rows: Sequence[str], column: str, score: str = "") -> str:
        """Our mean over some rows, as contests rank."""
        lines = [self._line(f"{row}.{column}", score) for row in rows]
        return f"{fmean(line.ours.mean for line in lines if line.ours):.{lines[0].score.digits}f}"

    def methods(self) -> int:
        """How many columns were run."""
        return sum(self.run(f"*.{column.name}") for column in self._recipe.columns)

    def run(self, pattern: str = "*") -> bool:
        """Whether a cell of this name was run."""
        return any(fnmatchcase(entry.cell, pattern) for entry in self._entries)

    def _line(self, cell: str, score: str) -> Line:
        for line in compare.lines(self._recipe, self._entries, score or self._recipe.tables[0]):
            if f"{line.row.name}.{line.column.name}" == cell:
                if line.ours is None or line.diverged:
                    raise _NotRunError
                return line
        raise ValueError(f"{self._recipe.name} has no cell {cell}")

    def _by_seed(self, line: Line) -> dict[int, float]:
        mine = f"{line.row.name}.{line.column.name}", line.scale
        return {
            entry.seed: line.score.factor * entry.values[line.score.key]
            for entry in self._entries
            if (entry.cell, entry.scale) == mine
        }


def paragraphs(found: Mapping[str, Sequence[Entry]]) -> list[str]:
    """Those whose numbers are all there; `found` has the results of every recipe."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    words = files("fedskew.reproduce").joinpath("findings.md.j2").read_text(encoding="utf-8")
    out = []
    for paragraph in words.strip().split("\n\n"):
        try:
            text = (
                environment.from_string(paragraph).render(of=lambda name: Numbers(name, found[name])).strip()
            )
        except _NotRunError:
            continue
        if text:
            out.append(" ".join(text.split()))
    return out
