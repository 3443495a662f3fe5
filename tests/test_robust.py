"""Robust aggregates against float64 loops written from their papers, and at their edges."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_aggregates import COUNTER, MEAN, MODEL, WEIGHT, combined, drawn, near, reply

from fedskew.errors import ConfigError
from fedskew.method import Method
from fedskew.part import Aggregate
from fedskew.parts import ClippedMean, Mean, Median, MultiKrum, TrimmedMean
from fedskew.parts.robust import krum, trimmed_mean
from fedskew.slots import fill

clients = st.integers(1, 9)


def numbers(stacked: torch.Tensor) -> list[list[float]]:
    """One list of the clients' values for every number of an entry."""
    return stacked.flatten(1).T.tolist()


@given(count=clients, seed=st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_median(count: int, seed: int) -> None:
    start, stacked = drawn(count, seed)
    found, _ = combined(Median(), start, reply(stacked, [1.0] * count))
    for name in (WEIGHT, MEAN):
        for value, own in zip(found[name].flatten().tolist(), numbers(stacked[name]), strict=True):
            own.sort()
            middle = own[count // 2] if count % 2 else (own[count // 2 - 1] + own[count // 2]) / 2
            assert math.isclose(value, middle, rel_tol=1e-12)
    assert found[COUNTER] == stacked[COUNTER].max()


@given(count=clients, seed=st.integers(0, 100), share=st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4]))
@settings(max_examples=25, deadline=None)
def test_trimmed_mean(count: int, seed: int, share: float) -> None:
    start, stacked = drawn(count, seed)
    found, _ = combined(TrimmedMean(share), start, reply(stacked, [1.0] * count))
    cut = math.floor(round(share * count, 6))
    for name in (WEIGHT, MEAN):
        for value, own in zip(found[name].flatten().tolist(), numbers(stacked[name]), strict=True):
            kept = sorted(own)[cut : count - cut]
            assert math.isclose(value, math.fsum(kept) / len(kept), rel_tol=1e-12)


def krum_by_loops(points: list[list[float]], bad: int) -> list[int]:
    """Blanchard et al., 2017: scores over the K - f - 2 closest others; the K - f lowest are chosen."""
    scores = []
    for i, mine in enumerate(points):
        others = sorted(math.dist(mine, other) ** 2 for j, other in enumerate(points) if j != i)
        scores.append((math.fsum(others[: max(1, len(points) - bad - 2)]), i))
    return sorted(i for _, i in sorted(scores)[: len(points) - bad])


@given(count=clients, seed=st.integers(0, 100), share=st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4]))
@settings(max_examples=25, deadline=None)
def test_multi_krum(count: int, seed: int, share: float) -> None:
    start, stacked = drawn(count, seed)
    points = [
        [number for name in MODEL.trainable for number in stacked[name][k].flatten().tolist()]
        for k in range(count)
    ]
    chosen = krum_by_loops(points, math.floor(round(share * count, 6)))
    found, _ = combined(MultiKrum(share), start, reply(stacked, [3.0] * count))
    for name in (WEIGHT, MEAN):
        assert near(found[name], sum(stacked[name][k] for k in chosen) / len(chosen))


@pytest.mark.parametrize("radius", [1e-3, 2.0, 1e6])
def test_norm_clipping(radius: float) -> None:
    start, stacked = drawn(4)
    samples = [1.0, 2.0, 3.0, 4.0]
    found, _ = combined(ClippedMean(radius), start, reply(stacked, samples))
    total = {name: start[name].clone() for name in MODEL.trainable}
    for k, own in enumerate(samples):
        change = {name: stacked[name][k] - start[name] for name in MODEL.trainable}
        length = math.sqrt(math.fsum(float(v) ** 2 for value in change.values() for v in value.flatten()))
        for name, value in change.items():
            total[name] += own / 10 * value * min(1.0, radius / length)
    for name in MODEL.trainable:
        assert near(found[name], total[name])
    assert near(found[MEAN], sum(stacked[MEAN][k] * own / 10 for k, own in enumerate(samples)))


def test_clipped_clients_without_samples_count_alike() -> None:
    start, stacked = drawn(3)
    found, _ = combined(ClippedMean(2.0), start, reply(stacked, [0.0] * 3))
    alike, _ = combined(ClippedMean(2.0), start, reply(stacked, [5.0] * 3))
    assert all(near(found[name], alike[name]) for name in start)


@pytest.mark.parametrize("part", [MultiKrum(0.3), ClippedMean(0.5)])
def test_distances_of_single_numbers(part: Aggregate) -> None:
    start, stacked = drawn(4)
    single, many = {WEIGHT: torch.tensor(0.5)}, {WEIGHT: torch.tensor([0.5, 0.6, 9.0, 0.4])}
    found, _ = combined(part, start | single, reply(stacked | many, [1.0] * 4))
    assert found[WEIGHT].shape == ()


@pytest.mark.parametrize("part", [Median(), TrimmedMean(0.3), MultiKrum(0.3), ClippedMean(0.5)])
def test_one_reply_that_is_far_off_does_not_decide(part: Aggregate) -> None:
    start, stacked = drawn(7)
    spoilt = {name: value.clone() for name, value in stacked.items()}
    spoilt[WEIGHT][2] += 1e9
    good, _ = combined(part, start, reply(stacked, [1.0] * 7))
    bad, _ = combined(part, start, reply(spoilt, [1.0] * 7))
    plain, _ = combined(Mean(), start, reply(spoilt, [1.0] * 7))
    assert float((bad[WEIGHT] - good[WEIGHT]).abs().max()) < 5
    assert float(plain[WEIGHT].abs().max()) > 1e8


@pytest.mark.parametrize("part", [Median(), TrimmedMean(), MultiKrum(), ClippedMean(1e9)])
def test_a_single_reply_is_taken_as_it_is(part: Aggregate) -> None:
    start, stacked = drawn(1)
    found, _ = combined(part, start, reply(stacked, [5.0]))
    assert all(torch.equal(found[name], stacked[name][0]) for name in start)


def test_without_bad_clients_two_of_them_are_the_uniform_mean() -> None:
    start, stacked = drawn(5)
    replies = reply(stacked, [1.0, 2.0, 3.0, 4.0, 5.0])
    mean, _ = combined(Mean("uniform"), start, replies)
    for part in (TrimmedMean(0.0), MultiKrum(0.0)):
        found, _ = combined(part, start, replies)
        assert all(near(found[name], mean[name]) for name in MODEL.trainable)


def test_shares_count_as_people_do() -> None:
    values = torch.arange(10.0, dtype=torch.float64)
    assert float(trimmed_mean(values, 0.3)) == 4.5
    assert int(krum(values[:, None], 0.3).sum()) == 7


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"TrimmedMean": {"share": 0.5}}, r"TrimmedMean\.share = 0\.5"),
        ({"MultiKrum": {"share": -0.1}}, r"MultiKrum\.share = -0\.1"),
        ({"ClippedMean": {"radius": 0.0}}, r"ClippedMean\.radius = 0"),
        ({"Median": {}, "TrimmedMean": {}}, "both fill the slot"),
    ],
)
def test_settings_that_mean_nothing_are_refused(table: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        fill(Method(), table)


def test_a_table_opts_in() -> None:
    assert fill(Method(), {"TrimmedMean": {"share": 0.1}}).aggregate == TrimmedMean(0.1)
