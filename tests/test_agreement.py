"""The mean cosine of updates, against a loop over pairs."""

import math
from itertools import combinations

import pytest
import torch

from fedskew.agreement import mean_cosine


def by_pairs(before: dict[str, list[float]], after: list[dict[str, list[float]]]) -> float:
    moves = [[y - x for n in before for x, y in zip(before[n], one[n], strict=True)] for one in after]
    moved = [move for move in moves if any(move)]
    cosines = [
        sum(a * b for a, b in zip(u, v, strict=True))
        / math.dist(u, [0] * len(u))
        / math.dist(v, [0] * len(v))
        for u, v in combinations(moved, 2)
    ]
    return sum(cosines) / len(cosines)


def stacked(after: list[dict[str, list[float]]]) -> dict[str, torch.Tensor]:
    return {n: torch.tensor([one[n] for one in after], dtype=torch.float64) for n in after[0]}


def test_it_is_the_mean_over_pairs() -> None:
    generator = torch.Generator().manual_seed(1)
    before = {"a": [0.5, -1.0], "b": [2.0]}
    after = [
        {n: (torch.tensor(v) + torch.randn(len(v), generator=generator)).tolist() for n, v in before.items()}
        for _ in range(5)
    ]
    after.append({n: list(v) for n, v in before.items()})  # one that did not move has no direction
    start = {n: torch.tensor(v, dtype=torch.float64) for n, v in before.items()}
    assert mean_cosine(start, stacked(after)) == pytest.approx(by_pairs(before, after), rel=1e-6)


def test_an_entry_may_be_a_single_number() -> None:
    start = {"a": torch.zeros(2), "scale": torch.tensor(0.0)}
    moved = {"a": torch.tensor([[1.0, 0.0], [0.0, 0.0]]), "scale": torch.tensor([0.0, 2.0])}
    assert mean_cosine(start, moved) == pytest.approx(0)


@pytest.mark.parametrize(("second", "expected"), [([2.0, 0.0], 1.0), ([0.0, 3.0], 0.0), ([-1.0, 0.0], -1.0)])
def test_known_angles(second: list[float], expected: float) -> None:
    after = {"w": torch.tensor([[1.0, 0.0], second])}
    assert mean_cosine({"w": torch.zeros(2)}, after) == pytest.approx(expected)


@pytest.mark.parametrize(
    "after",
    [
        {"w": torch.ones(1, 2)},  # one client
        {"w": torch.zeros(3, 2)},  # nobody moved
        {"w": torch.ones(3, 1, 2)},  # rows of a larger network
        {},  # nothing is shared
    ],
)
def test_nothing_to_compare_is_nan(after: dict[str, torch.Tensor]) -> None:
    assert math.isnan(mean_cosine({"w": torch.zeros(2)}, after))


def test_counters_have_no_direction() -> None:
    before = {"w": torch.zeros(2), "n": torch.tensor(3)}
    after = {"w": torch.tensor([[1.0, 0.0], [1.0, 0.0]]), "n": torch.tensor([9, 4])}
    assert mean_cosine(before, after) == pytest.approx(1.0)
