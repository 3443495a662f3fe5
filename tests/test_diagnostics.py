"""The diagnostics against loops written from the papers, in float64."""

import math

import pytest
import torch
from torch import Tensor

from fedskew.diagnostics import (
    calibrated_deviation_bound,
    deviation_bound,
    deviation_share,
    error_correlation,
    generalisation_bound,
    margins,
    proxy_geometry,
)
from fedskew.errors import ConfigError
from fedskew.losses import fedlc_margins

CLASSES = 4


@pytest.fixture
def sample() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, non-negative features, labels and counts of a client that has classes 0, 1, 3 of four."""
    draw = torch.Generator().manual_seed(3)
    labels = torch.tensor([0] * 8 + [1] * 3 + [3])
    logits = torch.randn(12, CLASSES, generator=draw, dtype=torch.float64)
    features = torch.rand(12, 5, generator=draw, dtype=torch.float64)
    return logits, features, labels, torch.tensor([8, 3, 0, 1])


def mean_of(rows: Tensor, labels: Tensor, c: int) -> list[float]:
    chosen = [row.tolist() for row, label in zip(rows, labels.tolist(), strict=True) if label == c]
    return [sum(column) / len(chosen) for column in zip(*chosen, strict=True)]


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def bound_loop(p: Tensor, h: Tensor, labels: Tensor, j: int, r: int) -> float:
    h_r, h_j = mean_of(h, labels, r), mean_of(h, labels, j)
    return (1 - mean_of(p, labels, r)[r]) * dot(h_r, h_r) / (mean_of(p, labels, j)[r] * dot(h_r, h_j))


def same(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, equal_nan=True, rtol=1e-10, atol=1e-12)


def test_deviation_bound_by_hand() -> None:
    # Class 0: p = (3/4, 1/4), h = (1, 1); class 1: p = (1/2, 1/2), h = (2, 0).
    p = torch.tensor([[0.75, 0.25], [0.5, 0.5]], dtype=torch.float64)
    h = torch.tensor([[1.0, 1.0], [2.0, 0.0]], dtype=torch.float64)
    bound = deviation_bound(p, h, torch.tensor([0, 1]))
    # D_01 = (1/2 * 4) / (1/4 * 2) = 4;  D_10 = (1/4 * 2) / (1/2 * 2) = 1/2
    same(bound, torch.tensor([[math.nan, 4.0], [0.5, math.nan]], dtype=torch.float64))


def test_deviation_bound_is_definition_3(sample: tuple[Tensor, ...]) -> None:
    logits, features, labels, _ = sample
    p = logits.softmax(-1)
    bound = deviation_bound(p, features, labels)
    for j in range(CLASSES):
        for r in range(CLASSES):
            if j == r or 2 in (j, r):
                assert bound[j, r].isnan()
            else:
                assert bound[j, r].item() == pytest.approx(bound_loop(p, features, labels, j, r), rel=1e-12)


def test_deviation_bound_tells_the_sign_of_the_update(sample: tuple[Tensor, ...]) -> None:
    """Theorem 1, for classes of equal samples: the step of row r is against class r iff n_j / n_r > D_jr."""
    logits, features, _, _ = sample
    for few, many in ((1, 1), (1, 2), (1, 4), (1, 9), (2, 9)):
        labels = torch.tensor([0] * many + [1] * few)
        h = torch.cat([features[:1].expand(many, -1), features[1:2].expand(few, -1)])
        p = torch.cat([logits[:1, :2].expand(many, -1), logits[1:2, :2].expand(few, -1)]).softmax(-1)
        step = ((labels == 1).double() - p[:, 1]) @ h
        bound = deviation_bound(p, h, labels)
        assert (step @ h[-1] < 0) == (many / few > bound[0, 1])


def test_deviation_bound_keeps_its_digits_when_the_model_is_sure() -> None:
    p = torch.tensor([[0.5, 0.5], [1e-12, 1.0]])
    bound = deviation_bound(p, torch.ones(2, 3), torch.tensor([0, 1]))
    assert bound[0, 1].item() == pytest.approx(2e-12, rel=1e-5, abs=0)


@pytest.mark.parametrize("tau", [0.0, 0.5, 2.0])
def test_calibrated_bound_is_definition_3_on_calibrated_logits(
    sample: tuple[Tensor, ...], tau: float
) -> None:
    logits, features, labels, counts = sample
    bound = calibrated_deviation_bound(logits, features, labels, counts, tau=tau)
    seen = [0, 1, 3]
    p = torch.zeros_like(logits)
    for b, row in enumerate(logits.tolist()):
        weight = {c: math.exp(row[c] - tau * counts[c].item() ** -0.25) for c in seen}
        for c in seen:
            p[b, c] = weight[c] / sum(weight.values())
    for j in seen:
        for r in seen:
            if j != r:
                assert bound[j, r].item() == pytest.approx(bound_loop(p, features, labels, j, r), rel=1e-12)


@pytest.mark.parametrize("weighting", ["derived", "printed"])
def test_theorem_3_term_by_term(sample: tuple[Tensor, ...], weighting: str) -> None:
    """The sum of the theorem; with exp(Delta) in place of Delta it is the calibrated Definition 3."""
    logits, features, labels, counts = sample
    tau, seen = 0.7, [0, 1, 3]
    bound = calibrated_deviation_bound(logits, features, labels, counts, tau=tau, weighting=weighting)
    margin = {c: tau * counts[c].item() ** -0.25 for c in seen}
    scaled = torch.tensor(
        [
            [math.exp(z) / sum(math.exp(row[i] - margin[i]) for i in seen) for z in row]
            for row in logits.tolist()
        ],
        dtype=torch.float64,
    )
    for j, r in [(0, 1), (0, 3), (1, 3), (3, 0)]:
        h_r, h_j = mean_of(features, labels, r), mean_of(features, labels, j)
        p_r, p_j = mean_of(scaled, labels, r), mean_of(scaled, labels, j)
        total = 0.0
        for y in seen:
            if y != r:
                delta = margin[r] - margin[y]
                weight = math.exp(delta) if weighting == "derived" else delta
                total += weight * p_r[y] * dot(h_r, h_r) / (p_j[r] * dot(h_r, h_j))
        assert bound[j, r].item() == pytest.approx(total, rel=1e-12)


def test_calibration_raises_the_bound_of_the_minority(sample: tuple[Tensor, ...]) -> None:
    logits, features, labels, counts = sample
    plain = calibrated_deviation_bound(logits, features, labels, counts, tau=0.0)
    calibrated = calibrated_deviation_bound(logits, features, labels, counts, tau=1.0)
    assert calibrated[0, 3] > plain[0, 3]
    assert calibrated[1, 3] > plain[1, 3]


def test_printed_theorem_vanishes_without_margins(sample: tuple[Tensor, ...]) -> None:
    bound = calibrated_deviation_bound(*sample, tau=0.0, weighting="printed")
    assert bound[0, 3] == 0


def test_deviation_share_by_hand() -> None:
    nan, inf = math.nan, math.inf
    counts = torch.tensor([8, 2, 1, 0])
    bound = torch.tensor(
        [
            [nan, 3.9, 8.0, 0.1],  # n_0/n_1 = 4 > 3.9 deviates; n_0/n_2 = 8 is not > 8; class 3 is missing
            [0.0, nan, -1.0, 0.1],  # (1, 2): a negative bound never deviates; (1, 0) is minority to majority
            [0.0, 0.1, nan, nan],
            [inf, inf, inf, nan],
        ]
    )
    assert deviation_share(counts, bound).item() == pytest.approx(1 / 3)
    assert deviation_share(counts, bound, ratio=3.0).item() == pytest.approx(1 / 2)
    assert deviation_share(torch.tensor([5, 5, 5, 5]), bound).isnan()
    bound[0, 2] = nan
    assert deviation_share(counts, bound).item() == pytest.approx(1 / 2)


def test_margins_loop(sample: tuple[Tensor, ...]) -> None:
    logits, _, labels, _ = sample
    gaps: dict[int, list[float]] = {c: [] for c in range(CLASSES)}
    for row, y in zip(logits.tolist(), labels.tolist(), strict=True):
        gaps[y].append(row[y] - max(z for c, z in enumerate(row) if c != y))
    least = [min(gaps[c]) if gaps[c] else math.nan for c in range(CLASSES)]
    mean = [sum(gaps[c]) / len(gaps[c]) if gaps[c] else math.nan for c in range(CLASSES)]
    same(margins(logits, labels), torch.tensor(least, dtype=torch.float64))
    same(margins(logits, labels.to(torch.uint8)), torch.tensor(least, dtype=torch.float64))
    same(margins(logits, labels, reduction="mean"), torch.tensor(mean, dtype=torch.float64))


def test_generalisation_bound_by_hand() -> None:
    distances = torch.tensor([0.5, 2.0, -1.0, math.nan], dtype=torch.float64)
    bound = generalisation_bound(distances, torch.tensor([16, 4, 9, 0]))
    assert bound[0, 1].item() == bound[1, 0].item() == 1 / (0.5 * 4) + 1 / (2 * 2)
    assert bound[0, 2].isinf()
    assert bound[1, 3].isinf()
    assert bound.diagonal().isnan().all()


@pytest.mark.parametrize("counts", [(1, 10000), (40, 7), (5, 5)])
def test_fedlc_margins_minimise_the_bound(counts: tuple[int, int]) -> None:
    """Theorem 2: for a fixed sum of the two margins, n^(-1/4) splits it best."""
    n = torch.tensor(counts, dtype=torch.float64)
    best = fedlc_margins(n)
    least = generalisation_bound(best, n)[0, 1]
    for share in torch.linspace(0.05, 0.95, 19, dtype=torch.float64):
        split = best.sum() * torch.stack([share, 1 - share])
        assert generalisation_bound(split, n)[0, 1] >= least - 1e-12


def test_error_correlation_loop() -> None:
    draw = torch.Generator().manual_seed(5)
    logits = torch.randn(40, 3, generator=draw, dtype=torch.float64)
    labels = torch.randint(0, 3, (40,), generator=draw)
    wrong = [
        [float((z > 0) != (c == y)) for c, z in enumerate(row)]
        for row, y in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    result = error_correlation(logits, labels)
    for a in range(3):
        for b in range(3):
            x, y = [row[a] for row in wrong], [row[b] for row in wrong]
            mx, my = sum(x) / 40, sum(y) / 40
            cov = sum((u - mx) * (v - my) for u, v in zip(x, y, strict=True))
            var = sum((u - mx) ** 2 for u in x) * sum((v - my) ** 2 for v in y)
            assert result[a, b].item() == pytest.approx(cov / math.sqrt(var), abs=1e-12)


def test_error_correlation_of_components_that_never_or_always_err() -> None:
    labels = torch.tensor([0, 0, 1, 1, 1, 0, 1])
    right = torch.where(labels == 0, 1.0, -1.0)
    fickle = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0])
    wrong = torch.where(labels == 2, 1.0, -1.0).neg()
    result = error_correlation(torch.stack([right, fickle, wrong], -1), labels)
    assert result.isnan().sum() == 8
    assert result[1, 1].item() == pytest.approx(1)


def test_proxy_geometry_by_hand() -> None:
    # Observed (0,0) and (3,4); missing (0,1), twice.
    weight = torch.tensor([[0.0, 0.0], [0.0, 1.0], [3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
    result = proxy_geometry(weight, torch.tensor([True, False, True, False]))
    assert result.norms.tolist() == [0, 1, 5, 1]
    assert result.observed_observed.item() == pytest.approx(2 * 5 / 4)
    assert result.observed_missing.item() == pytest.approx((2 * 1 + 2 * math.sqrt(18)) / 4)
    assert result.missing_missing.item() == 0


def test_proxy_geometry_sees_a_small_spread_far_from_the_origin() -> None:
    weight = torch.full((3, 2), 100.0)
    weight[0, 0] += 2**-10
    result = proxy_geometry(weight, torch.tensor([False, False, True]))
    assert result.missing_missing.item() == pytest.approx(2 * 2**-10 / 4, rel=1e-6)
    assert proxy_geometry(weight, torch.ones(3, dtype=torch.bool)).missing_missing.isnan()


def test_unknown_choices_are_named(sample: tuple[Tensor, ...]) -> None:
    logits, features, labels, counts = sample
    with pytest.raises(ConfigError, match=r"'average'.*mean, min"):
        margins(logits, labels, reduction="average")
    with pytest.raises(ConfigError, match="Did you mean 'printed'"):
        calibrated_deviation_bound(logits, features, labels, counts, weighting="print")
