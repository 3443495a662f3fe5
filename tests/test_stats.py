"""Statistics over seeds against scipy, and the truth table of the verdict."""

import math
import statistics
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from fedskew.errors import ConfigError
from fedskew.stats import Difference, Mean, paired_difference, summarise, verdict

quick = settings(deadline=None, max_examples=60)
accuracies = st.lists(st.floats(0, 100), min_size=2, max_size=8)


def test_summarise_by_hand() -> None:
    assert summarise([1.0, 2.0, 3.0]) == Mean(2.0, 1.0, 3)
    assert summarise([4.0])[::2] == (4.0, 1)
    assert math.isnan(summarise([4.0]).std)
    assert math.isnan(summarise([]).mean)


@quick
@given(accuracies)
def test_summarise_divides_by_n_minus_one(values: list[float]) -> None:
    found = summarise(values)
    assert found.mean == pytest.approx(statistics.fmean(values))
    assert found.std == pytest.approx(statistics.stdev(values), abs=1e-9)


def test_a_failed_seed_does_not_vanish() -> None:
    assert math.isnan(summarise([0.9, math.nan]).mean)
    assert math.isnan(paired_difference([0.9, math.nan], [0.1, 0.2]).high)
    assert paired_difference([0.9, math.nan], [0.1, 0.2]).signs == (1, 0)
    assert verdict([5.0, 5.0, math.nan], 1.0) == "undecided"


@quick
@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=2, max_size=8), st.floats(0.5, 0.99)
)
def test_the_interval_is_that_of_the_paired_t_test(drawn: list[tuple[float, float]], level: float) -> None:
    a, b = [x for x, _ in drawn], [y for _, y in drawn]
    differences = [x - y for x, y in drawn]
    deviation = statistics.stdev(differences)
    found = paired_difference(a, b, level)
    assert found.mean == pytest.approx(statistics.fmean(differences), abs=1e-9)
    if deviation > 1e-6:
        scale = deviation / math.sqrt(len(drawn))
        low, high = reference.t.interval(level, len(drawn) - 1, loc=found.mean, scale=scale)
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-7, abs=1e-9)


def test_the_interval_agrees_with_scipys_own_paired_test() -> None:
    a, b = [71.2, 69.8, 73.1, 70.4, 72.0], [68.0, 69.9, 70.2, 68.8, 69.5]
    found = paired_difference(a, b)
    low, high = reference.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.signs == (1, -1, 1, 1, 1)


def test_an_interval_from_a_table_of_students_t() -> None:
    # Mean 2, deviation 1, three seeds: 2 -+ 4.302653 / sqrt(3).
    found = paired_difference([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert found[:3] == pytest.approx(
        (2.0, 2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)), abs=1e-6
    )


def test_one_seed_bounds_nothing_and_equal_differences_leave_no_doubt() -> None:
    assert paired_difference([3.0], [1.0]) == Difference(2.0, -math.inf, math.inf, (1,))
    assert paired_difference([3.0, 4.0], [1.0, 2.0]) == Difference(2.0, 2.0, 2.0, (1, 1))
    assert paired_difference([1.0, 1.0], [1.0, 1.0]).signs == (0, 0)


def test_seeds_must_pair() -> None:
    with pytest.raises(ConfigError, match="3 seeds cannot be paired with 2"):
        paired_difference([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ConfigError, match="no seeds"):
        paired_difference([], [])
    with pytest.raises(ConfigError, match="confidence"):
        paired_difference([1.0, 2.0], [1.0, 2.0], confidence=95)


TRUTH_TABLE = [
    ("every seed, the whole claim", [2.0, 2.1, 1.9], 2.0, "confirmed"),
    ("every seed, exactly half", [1.0, 1.0, 1.0], 2.0, "confirmed"),
    ("every seed, more than claimed", [5.0, 5.1, 4.9], 2.0, "confirmed"),
    ("every seed, half, wide interval", [0.1, 2.9, 1.5], 2.0, "confirmed"),
    ("every seed, surely below half", [0.50, 0.51, 0.49], 2.0, "refuted"),
    ("every seed, below half, half not excluded", [0.2, 0.9, 1.2], 2.0, "undecided"),
    ("opposite in every seed", [-0.1, -9.0, -0.1], 2.0, "refuted"),
    ("opposite in every seed, half not excluded", [-0.1, -0.1, -30.0], 2.0, "refuted"),
    ("opposite or unchanged, half not excluded", [0.0, -0.1, -30.0], 2.0, "undecided"),
    ("mixed signs, wide", [3.0, -0.5, 2.0], 2.0, "undecided"),
    ("mixed signs, surely below half", [0.01, -0.01, 0.0], 2.0, "refuted"),
    ("nothing changed in any seed", [0.0, 0.0, 0.0], 2.0, "refuted"),
    ("surely above half, but one seed without a gain", [1.0] * 19 + [0.0], 0.5, "undecided"),
    ("one seed, enough", [1.5], 2.0, "confirmed"),
    ("one seed, too little", [0.5], 2.0, "undecided"),
    ("one seed, opposite", [-0.5], 2.0, "refuted"),
]


@pytest.mark.parametrize(("case", "differences", "claim", "expected"), TRUTH_TABLE)
def test_verdict(case: str, differences: list[float], claim: float, expected: str) -> None:
    assert verdict(differences, claim) == expected, case
    assert verdict([-d for d in differences], -claim) == expected, f"{case}, for a claimed loss"


def test_verdict_depends_on_the_confidence_asked_for() -> None:
    differences = [0.6, 0.7, 0.8]
    assert verdict(differences, 1.8, confidence=0.95) == "undecided"
    assert verdict(differences, 1.8, confidence=0.80) == "refuted"


@quick
@given(accuracies, st.floats(0.5, 20), st.sampled_from([1 / 8, 1 / 2, 2, 1024]))
def test_verdict_does_not_depend_on_the_unit(values: list[float], claim: float, unit: float) -> None:
    differences = [value - 50 for value in values]
    assert verdict(differences, claim) == verdict([unit * d for d in differences], unit * claim)


@pytest.mark.parametrize("claim", [0.0, math.nan])
def test_a_tie_is_no_claim_a_sign_can_confirm(claim: float) -> None:
    with pytest.raises(ConfigError, match="no sign"):
        verdict([1.0, 2.0], claim)


def test_no_seeds_is_no_verdict() -> None:
    with pytest.raises(ConfigError, match="no seeds"):
        verdict([], 1.0)


def test_scipy_is_loaded_only_when_an_interval_is_asked_for() -> None:
    code = "import sys, fedskew.stats as s; s.summarise([1.0, 2.0]); sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_values_may_be_numbers_of_numpy() -> None:
    a, b = np.array([0.6, 0.7, 0.8]), np.array([0.5, 0.5, 0.5])
    assert paired_difference(a, b) == paired_difference(a.tolist(), b.tolist())  # type: ignore[arg-type]
    assert verdict(a - b, 0.2) == verdict((a - b).tolist(), 0.2)  # type: ignore[arg-type]
