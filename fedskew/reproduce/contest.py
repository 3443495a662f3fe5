"""Methods ranked by one score over some rows: the best of the papers' and the best of ours. No torch here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fedskew.reproduce.recipe import SCALES, Column, Contest, Recipe, Row, Scale
from fedskew.reproduce.results import Entry


class Standing(NamedTuple):
    """A method's score in every row, the mean over seeds; nan where a run diverged."""

    column: Column
    by_row: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the rows."""
        return math.fsum(self.by_row) / len(self.by_row)

    @property
    def name(self) -> str:
        """As it is printed."""
        return self.column.label or self.column.name


class Ranking(NamedTuple):
    """All methods that were run on every seed and row of a contest, the best first."""

    contest: Contest
    rows: tuple[Row, ...]
    scale: Scale
    standings: tuple[Standing, ...]

    def best(self, ours: bool) -> Standing | None:
        """Of our compositions, or of the published methods."""
        return next((one for one in self.standings if one.column.ours is ours), None)


def rankings(recipe: Recipe, entries: Sequence[Entry]) -> list[Ranking]:
    """Every contest in which anybody can be ranked, by full runs or by quick ones, whichever rank more."""
    found = []
    for contest in recipe.contests:
        made = [_ranking(recipe, contest, entries, scale) for scale in SCALES]
        found.append(max(made, key=lambda one: len(one.standings)))
    return [one for one in found if one.standings]


def sentence(recipe: Recipe, ranking: Ranking) -> str:
    """How many were tried, and which of each kind is best."""
    standings = ranking.standings
    compositions = sum(one.column.ours for one in standings)
    seeds = f"seeds {', '.join(map(str, recipe.seeds))}" + ", quick" * (ranking.scale == "quick")
    text = f"{ranking.contest.title}: {len(standings)} methods were tried ({seeds}), {compositions} of them ours."
    for ours, kind in ((True, "of ours"), (False, "published")):
        best = ranking.best(ours)
        if best is not None:
            text += f" Best {kind}: {best.name}, {_number(recipe, ranking, best.mean)}."
    return text


def table(recipe: Recipe, ranking: Ranking) -> Iterator[list[str]]:
    """A head, then a line a method: its name, whether it is ours, its score by row and on the mean."""
    yield ["method", "", *(row.label or row.name for row in ranking.rows), "mean"]
    for one in ranking.standings:
        numbers = [_number(recipe, ranking, value) for value in (*one.by_row, one.mean)]
        yield [one.name, "ours" if one.column.ours else "published", *numbers]


def _number(recipe: Recipe, ranking: Ranking, value: float) -> str:
    digits = recipe.scores[ranking.contest.score].digits
    return "diverged" if math.isnan(value) else f"{value:.{digits}f}"


def _ranking(recipe: Recipe, contest: Contest, entries: Sequence[Entry], scale: Scale) -> Ranking:
    score, rows = recipe.scores[contest.score], tuple(recipe.chosen(contest.rows))
    values = {
        (entry.cell, entry.seed): score.factor * entry.values.get(score.key, math.nan)
        for entry in entries
        if entry.scale == scale
    }
    standings = []
    for column in recipe.columns:
        places = [[(f"{row.name}.{column.name}", seed) for seed in recipe.seeds] for row in rows]
        if all(place in values for by_seed in places for place in by_seed):
            means = [math.fsum(values[place] for place in by_seed) / len(by_seed) for by_seed in places]
            standings.append(Standing(column, tuple(means)))
    order = sorted(standings, key=lambda one: -math.inf if math.isnan(one.mean) else one.mean, reverse=True)
    return Ranking(contest, rows, scale, tuple(order))
