"""Tests over many pairs: signed ranks with Holm's correction, mean ranks, critical difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEAST = 6  # with fewer pairs no signed-rank test can fall below 0.05 (2 / 2^5 = 0.0625)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that keep the chance of any false claim below the level (Holm, 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def signed_rank(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p-value that a and b differ in their pairs (Wilcoxon, 1945); pairs that tie say nothing."""
    differences = [x - y for x, y in zip(a, b, strict=True) if x != y]
    if not differences:
        return 1.0
    from scipy.stats import wilcoxon  # scipy.stats takes longer to import than all of this package

    return float(wilcoxon(differences).pvalue)


class Ranking(NamedTuple):
    """Mean rank of every method (1 is best) and by how much two must differ (Nemenyi; Demsar, 2006)."""

    ranks: Mapping[str, float]
    critical: float
    pairs: int

    def alike(self) -> list[tuple[str, ...]]:
        """The longest rows of methods whose first and last are less than the critical difference apart."""
        names = sorted(self.ranks, key=lambda name: self.ranks[name])
        rows: list[tuple[str, ...]] = []
        for start, first in enumerate(names):
            row = tuple(n for n in names[start:] if self.ranks[n] - self.ranks[first] <= self.critical)
            if len(row) > 1 and not any(set(row) <= set(known) for known in rows):
                rows.append(row)
        return rows


def ranking(values: Mapping[str, Sequence[float]], level: float = 0.05) -> Ranking:
    """Ranks methods within each pair (a seed in a setting), the highest value first, ties shared."""
    from scipy.stats import rankdata, studentized_range

    names, blocks = list(values), list(zip(*values.values(), strict=True))
    rows = [rankdata([-value for value in block]) for block in blocks]
    means = {name: math.fsum(float(row[i]) for row in rows) / len(rows) for i, name in enumerate(names)}
    k = len(names)
    quantile = float(studentized_range.ppf(1 - level, k, math.inf)) / math.sqrt(2)
    return Ranking(means, quantile * math.sqrt(k * (k + 1) / (6 * len(rows))), len(rows))
