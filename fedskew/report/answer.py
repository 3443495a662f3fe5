"""The answer first: which method, how much better, how sure, and the command that gives it again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from fedskew import stats
from fedskew.report import significance
from fedskew.report.study import Setting, Study
from fedskew.results import HEADLINES
from fedskew.stats import Difference

Sureness = Literal["clear", "agreed", "open", "single", "alone"]


class Against(NamedTuple):
    """The best method against another one, in points of per cent."""

    other: str
    difference: Difference
    seeds: int
    p: float | None  # adjusted by Holm over all comparisons with the best; only with enough pairs

    @property
    def wins(self) -> int:
        """In how many seeds the best is higher."""
        return sum(sign > 0 for sign in self.difference.signs)

    @property
    def clear(self) -> bool:
        """Whether chance alone is an unlikely reason, which few seeds can never show."""
        return self.difference.low > 0 and self.p is not None and self.p < 0.05

    @property
    def agreed(self) -> bool:
        """Whether it is higher in every seed."""
        return self.wins == self.seeds


class Finding(NamedTuple):
    """What one headline metric says about one setting."""

    metric: str
    name: str
    best: str
    text: str  # mean and deviation in per cent
    seeds: int
    against: tuple[Against, ...]  # the nearest first
    finished: bool  # every run has come to its last round

    @property
    def sureness(self) -> Sureness:
        """How far the seeds support that the first is better than the second."""
        if not self.against:
            return "alone"
        if self.against[0].seeds < 2:
            return "single"
        if self.against[0].clear and self.finished:
            return "clear"
        return "agreed" if self.against[0].agreed else "open"

    @property
    def baseline(self) -> Against | None:
        """The comparison with FedAvg, where it is not the nearest anyway."""
        return next((one for one in self.against[1:] if one.other == "fedavg"), None)


def findings(setting: Setting) -> list[Finding]:
    """One finding for every headline metric that was measured."""
    found = (finding(setting, metric) for metric in HEADLINES)
    return [one for one in found if one is not None]


def finding(setting: Setting, metric: str) -> Finding | None:
    """The best method by one metric on the seeds that all have, against all others on the seeds they share."""
    results = setting.results.common(metric)
    best = results.best(metric)
    if best is None:
        return None
    rows = {row.method: row for row in results.summary((metric,))}
    ranked = sorted(rows.values(), key=lambda row: -row.values[metric].mean)
    others = [row.method for row in ranked if row.method != best and not math.isnan(row.values[metric].mean)]
    pairs = {other: _pairs(setting, best, other, metric) for other in others}
    against = _against({other: pair for other, pair in pairs.items() if pair})
    finished = all(run.complete or run.diverged for arm in setting.arms for run in arm.runs)
    row = rows[best]
    return Finding(metric, HEADLINES[metric], best, row.text(metric), row.seeds, against, finished)


def _pairs(setting: Setting, best: str, other: str, metric: str) -> list[tuple[float, float]]:
    arms = {arm.label: arm for arm in setting.arms}
    common = [seed for seed in arms[best].seeds if seed in arms[other].seeds]
    values = [(100 * arms[best].value(metric, s), 100 * arms[other].value(metric, s)) for s in common]
    return [pair for pair in values if not any(map(math.isnan, pair))]


def _against(pairs: dict[str, list[tuple[float, float]]]) -> tuple[Against, ...]:
    tested = {o: p for o, p in pairs.items() if len(p) >= significance.LEAST}
    raw = [significance.signed_rank([x for x, _ in p], [y for _, y in p]) for p in tested.values()]
    adjusted = dict(zip(tested, significance.holm(raw), strict=True))
    return tuple(
        Against(
            other,
            stats.paired_difference([x for x, _ in pair], [y for _, y in pair]),
            len(pair),
            adjusted.get(other),
        )
        for other, pair in pairs.items()
    )


def ranking(study: Study, metric: str) -> significance.Ranking | None:
    """Mean ranks over all seeds and settings; None with fewer than three methods or six pairs.

    A method that has no value for a seed, since it diverged, is the last one there.
    """
    shared = [
        label
        for label in study.labels
        if all(label in {arm.label for arm in setting.arms} for setting in study.settings)
        and not all(math.isnan(v) for setting in study.settings for v in _values(setting, label, metric))
    ]
    values: dict[str, list[float]] = {label: [] for label in shared}
    for setting in study.settings:
        arms = {arm.label: arm for arm in setting.arms}
        for seed in _common([arms[label].seeds for label in shared]):
            for label in shared:
                value = arms[label].value(metric, seed)
                values[label].append(-math.inf if math.isnan(value) else value)
    enough = len(shared) >= 3 and min(map(len, values.values())) >= significance.LEAST
    return significance.ranking(values) if enough else None


def _values(setting: Setting, label: str, metric: str) -> list[float]:
    return [arm.value(metric, seed) for arm in setting.arms if arm.label == label for seed in arm.seeds]


def _common(seeds: Sequence[Sequence[int]]) -> list[int]:
    return [seed for seed in seeds[0] if all(seed in others for others in seeds)] if seeds else []
