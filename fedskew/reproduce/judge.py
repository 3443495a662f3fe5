"""Every claim as paired differences over seeds, and the verdict on it. Nothing here imports torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from statistics import fmean
from typing import Literal, NamedTuple

from fedskew import stats
from fedskew.reproduce.recipe import SCALES, Claim, Comparison, Recipe, Row, Scale
from fedskew.reproduce.results import Entry

Verdict = Literal["confirmed", "refuted", "undecided", "not tested"]
SEEDS = 3  # with fewer, or fewer than the recipe has, a verdict is marked
_SIGN = 1e-9  # a claim without a size: its sign is all that is claimed


class Bound(NamedTuple):
    """A number that something is claimed to be above or below."""

    side: Literal["above", "below"]
    number: float

    def beyond(self, value: float) -> float:
        """How far a value is on the claimed side."""
        return value - self.number if self.side == "above" else self.number - value

    def value(self, beyond: float) -> float:
        """What is so far on the claimed side."""
        return self.number + beyond if self.side == "above" else self.number - beyond


class Contrast(NamedTuple):
    """One comparison in one row: what is claimed, and the differences found by seed."""

    label: str
    claimed: float | None  # None: the sign only
    slack: float | None
    within: float | None
    bound: Bound | None  # which the differences are counted from
    digits: int
    scale: Scale | None = None
    seeds: tuple[int, ...] = ()
    differences: tuple[float, ...] = ()
    far: bool = False  # one of the scores is far from the published one

    @property
    def verdict(self) -> Verdict:
        """By the rule: the sign in every seed and at least half of the claimed size."""
        if not self.differences:
            return "not tested"
        if self.slack is not None:
            return stats.verdict([value + self.slack + 2 * _SIGN for value in self.differences], _SIGN)
        if self.within is not None:
            return self._tie(self.within)
        if self.claimed is None and not any(self.differences):
            return "undecided"  # no sign at all, as where neither reached the accuracy that was asked for
        return stats.verdict(self.differences, self.claimed or _SIGN)

    def _tie(self, within: float) -> Verdict:
        """Confirmed if it holds in every seed; refuted if all miss it on one side, or the interval does."""
        if all(abs(value) <= within for value in self.differences):
            return "confirmed"
        beyond = max(min(self.differences), -max(self.differences)) > within
        return "refuted" if beyond or max(self.found.low, -self.found.high) > within else "undecided"

    @property
    def found(self) -> stats.Difference:
        """Mean, interval and signs."""
        return stats.paired_difference(self.differences, [0.0] * len(self.differences))


class Judgement(NamedTuple):
    """A claim and all of its comparisons."""

    claim: Claim
    contrasts: tuple[Contrast, ...]
    lacks: str = ""  # what the recipe's full scale still lacks
    wanted: int = SEEDS  # seeds of every comparison

    @property
    def tested(self) -> list[Contrast]:
        """The comparisons for which there are runs."""
        return [contrast for contrast in self.contrasts if contrast.differences]

    @property
    def verdict(self) -> Verdict:
        """One refuted comparison refutes the claim; all tested ones have to be confirmed to confirm it."""
        found = {contrast.verdict for contrast in self.tested}
        if not found:
            return "not tested"
        if "refuted" in found:
            return "refuted"
        return "confirmed" if found == {"confirmed"} else "undecided"

    @property
    def is_final(self) -> bool:
        """Whether everything that the claim compares was run often enough."""
        return all(len(contrast.seeds) >= self.wanted for contrast in self.contrasts)

    @property
    def is_short(self) -> bool:
        """Whether it rests on fewer rounds, or a smaller network, than the paper's."""
        return bool(self.tested) and (bool(self.lacks) or any(c.scale == "quick" for c in self.tested))

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        return self.verdict if self.is_final or not self.tested else f"{self.verdict} so far"

    @property
    def marks(self) -> list[str]:
        """What a reader has to know besides the verdict."""
        tested, other = self.tested, ["other data than the paper's"] * self.claim.other
        if not tested:
            return other
        count = {
            word: sum(c.verdict == word for c in tested) for word in ("confirmed", "refuted", "undecided")
        }
        marks = [f"{number} {word}" for word, number in count.items() if number] if len(tested) > 1 else []
        if len(tested) < len(self.contrasts):
            marks.append(f"{len(tested)} of {len(self.contrasts)} comparisons tested")
        if any(contrast.scale == "quick" for contrast in tested):
            marks.append("quick")
        least, most = (end(len(contrast.seeds) for contrast in tested) for end in (min, max))
        if least < self.wanted:
            many = f"{least} to {most} seeds" if least < most else f"{least} seed{'s' * (least > 1)}"
            marks.append(f"only {many}")
        if any(contrast.far for contrast in tested):
            marks.append("far from the published scores")
        return marks + [self.lacks] * bool(self.lacks) + other


def judge(recipe: Recipe, entries: Sequence[Entry]) -> list[Judgement]:
    """The verdict on every claim of a recipe."""
    table, wanted = _Table(recipe, entries), max(SEEDS, len(recipe.seeds))
    found = (
        (claim, [c for one in claim.compare for c in table.contrasts(claim, one)]) for claim in recipe.claims
    )
    return [
        Judgement(claim, tuple(contrasts), claim.lacks or recipe.lacks, wanted) for claim, contrasts in found
    ]


class _Term(NamedTuple):
    """A score of a cell, added or taken off."""

    sign: float
    row: Row
    column: str
    score: str


class _Table:
    """Published and found values of a recipe's cells."""

    def __init__(self, recipe: Recipe, entries: Sequence[Entry]) -> None:
        self.recipe = recipe
        self.rows = {row.name: row for row in recipe.rows}
        self.found = {(entry.cell, entry.scale, entry.seed): entry for entry in entries}
        self.seeds = sorted({entry.seed for entry in entries})

    def contrasts(self, claim: Claim, one: Comparison) -> Iterable[Contrast]:
        for row in self.recipe.chosen(one.rows):
            if row.name != one.against:
                pairs = product(one.more, one.less or (None,))
                named = [pair for pair in pairs if not row.columns or {*pair} - {None} <= set(row.columns)]
                terms = [self._terms(row, more, less, claim, one) for more, less in named]
                for pair, gain in zip(terms, self._gains(terms, row, one), strict=True):
                    yield self._contrast(pair, gain, one)

    def _gains(self, pairs: list[list[_Term]], row: Row, one: Comparison) -> list[float | None]:
        """What is claimed of each pair; of methods above others, the size over the closest, else the sign."""
        claimed = one.gain.get(row.name) if isinstance(one.gain, dict) else one.gain
        if any(said is not None for said in (claimed, one.slack, one.within, _bound(one))):
            return [claimed] * len(pairs)
        printed = [_total([(t.sign, self._published(t)) for t in terms], one) or None for terms in pairs]
        least = min((abs(gain) for gain in printed if gain is not None), default=None)
        is_order = one.against is None
        return [None if is_order and gain is not None and abs(gain) != least else gain for gain in printed]

    def _contrast(self, terms: list[_Term], gain: float | None, one: Comparison) -> Contrast:
        score = self.recipe.scores[terms[0].score]
        plain = Contrast(self._label(terms, one), gain, one.slack, one.within, _bound(one), score.digits)
        for scale in SCALES:
            known: dict[int, float] = {}
            for seed in self.seeds:
                value = _total([(term.sign, self._value(term, scale, seed)) for term in terms], one)
                if value is not None:
                    known[seed] = value
            if known:
                far = any(self._far(term, scale, known) for term in terms)
                return plain._replace(
                    scale=scale, seeds=tuple(known), differences=tuple(known.values()), far=far
                )
        return plain

    def _far(self, term: _Term, scale: Scale, seeds: Iterable[int]) -> bool:
        """Whether our mean is far from the published number, where both are shares."""
        printed = self._published(term)
        if printed is None:
            return False
        ours = [self._value(term, scale, seed) for seed in seeds]
        return (
            abs(fmean(value for value in ours if value is not None) - printed)
            > self.recipe.scores[term.score].band
        )

    def _terms(self, row: Row, more: str, less: str | None, claim: Claim, one: Comparison) -> list[_Term]:
        """The left side less the right side, less the same in the row that it is held against."""
        score = one.score or claim.score
        terms = [_Term(1.0, row, more, score)]
        if less:
            terms.append(_Term(-1.0, row, less, one.less_score or score))
        if one.against:
            terms += [t._replace(sign=-t.sign, row=self.rows[one.against]) for t in terms]
        return terms

    def _label(self, terms: list[_Term], one: Comparison) -> str:
        names = {column.name: column.label or column.name for column in self.recipe.columns}
        row, sides = terms[0].row, [term for term in terms if term.row is terms[0].row]
        said = [names[term.column] for term in sides]
        score = [f" ({self.recipe.scores[term.score].label})" for term in sides]
        if one.less_score:
            said = [name + what for name, what in zip(said, score, strict=True)]
        label = f"{row.label or row.name}: {' over '.join(said)}"
        label += score[0] if len(self.recipe.tables) > 1 and not one.less_score else ""
        if one.against:
            against = self.rows[one.against]
            label += f", against {against.label or against.name}"
        return label

    def _published(self, term: _Term) -> float | None:
        printed = term.row.published.get(term.score, {}).get(term.column)
        return None if printed is None or printed.doubtful else printed.mean

    def _value(self, term: _Term, scale: Scale, seed: int) -> float | None:
        entry = self.found.get((f"{term.row.name}.{term.column}", scale, seed))
        wanted = self.recipe.scores[term.score]
        value = math.nan if entry is None else wanted.factor * entry.values.get(wanted.key, math.nan)
        has_run = entry is not None and (entry.status == "diverged" or not math.isnan(value))
        return value if has_run else None


def _total(terms: Sequence[tuple[float, float | None]], one: Comparison) -> float | None:
    """The signed sum, as how far it is on the claimed side; None where a term has no value."""
    if any(value is None for _, value in terms):
        return None
    total = math.fsum(sign * value for sign, value in terms if value is not None)
    bound = _bound(one)
    return bound.beyond(total) if bound else total


def _bound(one: Comparison) -> Bound | None:
    if one.above is not None:
        return Bound("above", one.above)
    return None if one.below is None else Bound("below", one.below)
