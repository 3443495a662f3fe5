"""Statistics over seeds: mean and spread, paired differences, and the verdict on a published claim.

A run that has no value (nan) makes the statistic nan; a seed that failed must not vanish from a mean.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from fedskew.errors import ConfigError

Verdict = Literal["confirmed", "refuted", "undecided"]


class Mean(NamedTuple):
    """Mean and sample standard deviation (ddof 1, nan for one seed) over n seeds."""

    mean: float
    std: float
    n: int


class Difference(NamedTuple):
    """Mean of paired differences, its t-interval (unbounded for one seed), and the sign in each seed."""

    mean: float
    low: float
    high: float
    signs: tuple[int, ...]


def summarise(values: Sequence[float]) -> Mean:
    """Mean, standard deviation and number of the values of a metric over seeds."""
    n = len(values)
    mean = math.fsum(values) / n if n else math.nan
    if n < 2:
        return Mean(mean, math.nan, n)
    return Mean(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1)), n)


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Difference:
    """Mean of a - b over seeds with its two-sided t-interval; position i of both is the same seed."""
    if len(a) != len(b):
        raise ConfigError(
            f"{len(a)} seeds cannot be paired with {len(b)}; run both methods on the same ones."
        )
    return _interval([x - y for x, y in zip(a, b, strict=True)], confidence)


def verdict(differences: Sequence[float], claimed_gain: float, confidence: float = 0.95) -> Verdict:
    """Judges a claimed gain by the paired differences over seeds, both in the same unit.

    Confirmed: the claimed sign in every seed and a mean of at least half the claim. Refuted: the opposite
    sign in every seed, or an interval that ends below half the claim.
    """
    if not claimed_gain or math.isnan(claimed_gain):
        raise ConfigError(f"a claimed gain of {claimed_gain} has no sign; judge a tie by its interval.")
    direction = math.copysign(1, claimed_gain)
    half = abs(claimed_gain) / 2
    found = _interval([direction * difference for difference in differences], confidence)
    if all(sign > 0 for sign in found.signs) and found.mean >= half:
        return "confirmed"
    if all(sign < 0 for sign in found.signs) or found.high < half:
        return "refuted"
    return "undecided"


def _interval(differences: Sequence[float], confidence: float) -> Difference:
    if not differences:
        raise ConfigError("no seeds to compare; run both methods on at least one common seed.")
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence is {confidence}; it must lie in (0, 1), e.g. 0.95.")
    signs = tuple(int(value > 0) - int(value < 0) for value in differences)
    mean, std, n = summarise(differences)
    if n == 1:
        return Difference(mean, -math.inf, math.inf, signs)
    from scipy.special import stdtrit  # scipy.stats has this quantile too, but loads for seconds

    margin = float(stdtrit(n - 1, (1 + confidence) / 2)) * std / math.sqrt(n)
    return Difference(mean, mean - margin, mean + margin, signs)
