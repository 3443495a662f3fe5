"""A score's table on the page: beside what is published, or a column a method where nothing is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from fedskew import stats
from fedskew.reproduce import compare
from fedskew.reproduce.cells import cells
from fedskew.reproduce.compare import Line
from fedskew.reproduce.recipe import Recipe
from fedskew.reproduce.results import Entry

APART = 10.0  # points of deviation between seeds that need a look
MANY = 10  # columns that fit on a screen
NONE = "-"


def table(recipe: Recipe, entries: Sequence[Entry], score: str) -> Iterator[str]:
    """Title, table, and which seeds are far apart; nothing where nothing was run."""
    found = [line for line in compare.lines(recipe, entries, score) if line.ours is not None]
    if not found:
        return
    yield f"\n{recipe.scores[score].label}{' in per cent' if recipe.scores[score].percent else ''}\n"
    full = {cell.name: cell.config.train.rounds for cell in cells(recipe) if not cell.study}
    form = _beside if any(line.published for line in found) else _compact
    yield from form(found, entries, full)
    apart = [
        _seeds(line, entries)
        for line in found
        if line.ours and line.score.percent and not line.diverged and line.ours.std > APART
    ]
    if apart:
        yield f"\nSeeds far apart (a deviation above {APART:g} points): {'; '.join(apart)}."


def _beside(found: Sequence[Line], entries: Sequence[Entry], full: Mapping[str, int]) -> Iterator[str]:
    """A line a cell, ours beside the published number."""
    return _columns(
        {
            "": [_row(line) for line in found],
            "method": [_method(line) for line in found],
            "published": [line.printed for line in found],
            "ours": [line.found for line in found],
            "last round": [_last(line, entries) for line in found],
            "difference": [line.difference for line in found],
            "seeds": [line.seeds for line in found],
            "rounds": [_rounds(line, entries, full) for line in found],
        }
    )


def _compact(found: Sequence[Line], entries: Sequence[Entry], full: Mapping[str, int]) -> Iterator[str]:
    """A line a row and a column a method, unless there are many: the mean, in brackets the last round."""
    down, across = _row, _method
    if len(set(map(_method, found))) > MANY:
        down, across = across, down
    lines: dict[str, list[Line]] = {}
    for line in found:
        lines.setdefault(down(line), []).append(line)
    scales = {name: {line.scale for line in of} for name, of in lines.items()}
    values = {
        (down(line), across(line)): _short(line, entries)
        + " quick" * (line.scale == "quick" and len(scales[down(line)]) > 1)
        for line in found
    }
    return _columns(
        {"": list(lines)}
        | {
            head: [values.get((name, head), NONE) for name in lines]
            for head in dict.fromkeys(map(across, found))
        }
        | {
            "seeds": [_several(line.ours.n for line in of if line.ours) for of in lines.values()],
            "rounds": [_several(_rounds(line, entries, full) for line in of) for of in lines.values()],
        }
    )


def _columns(table: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Without columns that say nothing."""
    told = {head: column for head, column in table.items() if set(column) != {NONE}}
    yield f"| {' | '.join(told)} |"
    yield "|---" * len(told) + "|"
    yield from (f"| {' | '.join(line)} |" for line in zip(*told.values(), strict=True))


def _row(line: Line) -> str:
    return line.row.label or line.row.name


def _method(line: Line) -> str:
    return line.column.label or line.column.name


def _short(line: Line, entries: Sequence[Entry]) -> str:
    last = _last(line, entries)
    return f"{line.found}{'*' * line.few}" + ("" if last == NONE else f" ({last})")


def _several(values: Iterator[object]) -> str:
    return " or ".join(map(str, dict.fromkeys(values)))


def _last(line: Line, entries: Sequence[Entry]) -> str:
    """What the last round alone gives, where the score is a mean over rounds."""
    if not line.score.reduce.startswith("mean") or line.diverged:
        return NONE
    mean = stats.summarise(_values(line, entries, f"{line.score.metric}.last")).mean
    return NONE if math.isnan(mean) else f"{mean:.{line.score.digits}f}"


def _seeds(line: Line, entries: Sequence[Entry]) -> str:
    values = ", ".join(f"{value:.{line.score.digits}f}" for value in _values(line, entries, line.score.key))
    return f"{_row(line)}, {_method(line)}: {values}"


def _values(line: Line, entries: Sequence[Entry], key: str) -> list[float]:
    name = f"{line.row.name}.{line.column.name}"
    mine = [entry for entry in entries if (entry.cell, entry.scale) == (name, line.scale)]
    return [line.score.factor * entry.values.get(key, math.nan) for entry in mine]


def _rounds(line: Line, entries: Sequence[Entry], full: Mapping[str, int]) -> str:
    """How many, and of how many if the run is quick; a close look at a network has none."""
    name = f"{line.row.name}.{line.column.name}"
    if name not in full:
        return "quick" if line.scale == "quick" else NONE
    if line.scale == "full":
        return str(full[name])
    run = {str(entry.rounds) for entry in entries if (entry.cell, entry.scale) == (name, "quick")}
    return f"{' or '.join(sorted(run))} of {full[name]} (quick)"
