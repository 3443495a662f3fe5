"""Published numbers beside ours. Nothing here imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fedskew import stats
from fedskew.reproduce.judge import SEEDS, Contrast
from fedskew.reproduce.recipe import Column, Published, Recipe, Row, Scale, Score
from fedskew.reproduce.results import Entry


class Line(NamedTuple):
    """One score of one cell; `ours` is None where nothing has been run."""

    row: Row
    column: Column
    score: Score
    published: Published | None
    ours: stats.Mean | None = None
    scale: Scale | None = None
    diverged: int = 0

    @property
    def printed(self) -> str:
        """As published."""
        if self.published is None:
            return "-"
        mean, std, doubtful, digits = self.published
        spread = "" if std is None else f" ± {std:.{digits}f}"
        return f"{mean:.{digits}f}{spread}{'?' * doubtful}"

    @property
    def found(self) -> str:
        """Our mean and deviation over seeds."""
        if self.ours is None:
            return "-"
        if self.diverged:
            return f"diverged ({self.diverged} of {self.ours.n})"
        spread = "" if math.isnan(self.ours.std) else f" ± {self.ours.std:.{self.score.digits}f}"
        return f"{self.ours.mean:.{self.score.digits}f}{spread}"

    @property
    def difference(self) -> str:
        """Ours less the published one."""
        if self.ours is None or self.published is None or self.published.doubtful or self.diverged:
            return "-"
        found = self.ours.mean - self.published.mean
        return f"{found:+z.{self.score.digits}f}{' !' * (abs(found) > self.score.band)}"

    @property
    def few(self) -> bool:
        """Whether it is marked as resting on few seeds."""
        return self.ours is not None and self.ours.n < SEEDS

    @property
    def seeds(self) -> str:
        """How many; few are marked."""
        return "-" if self.ours is None else f"{self.ours.n}{'*' * self.few}"


def lines(recipe: Recipe, entries: Sequence[Entry], score: str) -> list[Line]:
    """Every cell of a recipe under one score, row by row: its full runs, or else its quick ones."""
    out = []
    for plain in _plain(recipe, score):
        full = _with(plain, entries, "full")
        out.append(full if full.ours is not None else _with(plain, entries, "quick"))
    return out


def alike(recipe: Recipe, entries: Sequence[Entry], score: str, together: Callable[[Row], str]) -> list[Line]:
    """What has been run, for a figure: rows that stand together are all full or all quick, whichever are more."""
    found: dict[str, dict[Scale, list[Line]]] = {}
    for plain in _plain(recipe, score):
        by_scale = found.setdefault(together(plain.row), {"full": [], "quick": []})
        for scale, known in by_scale.items():
            line = _with(plain, entries, scale)
            if line.ours is not None and not line.diverged:
                known.append(line)
    return [line for by_scale in found.values() for line in max(by_scale.values(), key=len)]


def _plain(recipe: Recipe, score: str) -> Iterator[Line]:
    for row in recipe.rows:
        for column in recipe.columns:
            if not row.columns or column.name in row.columns:
                published = row.published.get(score, {}).get(column.name)
                yield Line(row, column, recipe.scores[score], published)


def _with(plain: Line, entries: Sequence[Entry], scale: Scale) -> Line:
    name = f"{plain.row.name}.{plain.column.name}"
    mine = [entry for entry in entries if entry.cell == name and entry.scale == scale]
    values = [plain.score.factor * entry.values.get(plain.score.key, math.nan) for entry in mine]
    lost = sum(entry.status == "diverged" for entry in mine)
    if not lost and all(map(math.isnan, values)):
        return plain  # not run, or a method to which the score does not apply
    return plain._replace(ours=stats.summarise(values), scale=scale, diverged=lost)


def words(contrast: Contrast) -> str:
    """What a comparison has found: the mean difference (or value), its interval, and in which seeds as claimed."""
    if any(map(math.isnan, contrast.differences)):
        lost = [str(s) for s, d in zip(contrast.seeds, contrast.differences, strict=True) if math.isnan(d)]
        return f"diverged with seed {', '.join(lost)}{' (quick)' * (contrast.scale == 'quick')}"
    found, bound = contrast.found, contrast.bound
    form = f"{'' if bound else '+'}.{contrast.digits}f"  # -0.0 is a little below zero
    mean, *ends = (bound.value(x) if bound else x for x in (found.mean, found.low, found.high))
    text = f"{mean:{form}}"
    if math.isfinite(found.low):
        text += f" [{min(ends):{form}}, {max(ends):{form}}]"
    signs = "".join("+" if sign > 0 else "-" if sign < 0 else "0" for sign in found.signs)
    return f"{text} by seed {signs}{' (quick)' * (contrast.scale == 'quick')}"


def claimed(contrast: Contrast) -> str:
    """What is claimed of a comparison."""
    if contrast.bound:
        return f"{contrast.bound.side} {contrast.bound.number:g}"
    if contrast.slack is not None:
        return f"at least -{contrast.slack:g}"
    if contrast.within is not None:
        return f"within {contrast.within:g}"
    return "above 0" if contrast.claimed is None else f"{contrast.claimed:+.{contrast.digits}f}"
