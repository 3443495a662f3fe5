"""Server rules against float64 loops, and where they must be exact."""

import math

import pytest
import torch
from torch import Tensor, nn

from fedskew import losses
from fedskew.models.module import from_module
from fedskew.parts import AdaptiveServer, Mix, Replace, ServerMomentum, SpreadHead
from fedskew.tree import Tree

MODEL = from_module(lambda: nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 4)))
NAME, HEAD = "0.weight", "1.weight"


def drawn(seed: int, dtype: torch.dtype = torch.float64) -> Tree:
    return {n: v.to(dtype) for n, v in MODEL.init(seed).items()}


def second(kind: str, v: float, d: float, b2: float) -> float:
    if kind == "adam":
        return b2 * v + (1 - b2) * d * d
    if kind == "yogi":
        sign = (v - d * d > 0) - (v - d * d < 0)
        return v - (1 - b2) * d * d * sign
    return v + d * d


@pytest.mark.parametrize("kind", ["adam", "yogi", "adagrad"])
def test_adaptive_servers_number_by_number(kind: str) -> None:
    rule = AdaptiveServer(kind, lr=0.1, b1=0.9, b2=0.99, tau=1e-3)  # type: ignore[arg-type]
    x = drawn(0)
    state = rule.server_state(x, 5)
    flat = x[NAME].flatten().tolist()
    m, v = [0.0] * len(flat), [0.0] * len(flat)
    for t in range(1, 5):
        combined = drawn(t)
        x, state = rule.update(x, combined, state, MODEL)
        for i, y in enumerate(combined[NAME].flatten().tolist()):
            d = y - flat[i]
            m[i] = 0.9 * m[i] + 0.1 * d
            v[i] = second(kind, v[i], d, 0.99)
            flat[i] += 0.1 * m[i] / (math.sqrt(v[i]) + 1e-3)
        assert torch.allclose(x[NAME].flatten(), torch.tensor(flat, dtype=torch.float64), rtol=1e-12)


def test_server_momentum_number_by_number() -> None:
    rule = ServerMomentum(beta=0.9, lr=0.7)
    x = drawn(0)
    state, expected, speed = rule.server_state(x, 5), x[NAME], torch.zeros(2, 3, dtype=torch.float64)
    for t in range(1, 4):
        combined = drawn(t)
        x, state = rule.update(x, combined, state, MODEL)
        speed = 0.9 * speed + (combined[NAME] - expected)
        expected = expected + 0.7 * speed
        assert torch.allclose(x[NAME], expected, rtol=1e-12)


@pytest.mark.parametrize("rule", [Replace(), Mix(1.0), ServerMomentum(0.0), ServerMomentum(0.9)], ids=str)
def test_the_first_round_gives_the_combined_model_bit_for_bit(rule: Replace | Mix | ServerMomentum) -> None:
    x, y = drawn(0, torch.float32), drawn(1, torch.float32)
    found, _ = rule.update(x, y, rule.server_state(x, 5), MODEL)
    assert all(torch.equal(found[n], y[n]) for n in y)


def test_mixing_goes_part_of_the_way() -> None:
    x, y = drawn(0), drawn(1)
    assert torch.allclose(Mix(0.25).update(x, y, {}, MODEL)[0][NAME], 0.75 * x[NAME] + 0.25 * y[NAME])


def hinge(rows: Tensor, margin: float) -> float:
    """Pair by pair, from the formula."""
    total, count = 0.0, len(rows)
    for i in range(count):
        for j in range(count):
            if i != j:
                cosine = float(rows[i] @ rows[j] / (rows[i].norm() * rows[j].norm()))
                total += max(0.0, margin - 0.5 * (1 - cosine)) ** 2
    return total / count**2


def test_spreading_descends_the_hinge_by_its_gradient() -> None:
    x, margin, step = drawn(0), 0.9, 1e-6
    slope = torch.zeros_like(x[HEAD])
    for i in range(slope.shape[0]):
        for j in range(slope.shape[1]):
            up, down = x[HEAD].clone(), x[HEAD].clone()
            up[i, j] += step
            down[i, j] -= step
            slope[i, j] = (hinge(up, margin) - hinge(down, margin)) / (2 * step)
    found, _ = SpreadHead(margin, lr=0.5, steps=1).update(x, x, {}, MODEL)
    assert torch.allclose(found[HEAD], x[HEAD] - 0.5 * slope, atol=1e-8)
    assert all(torch.equal(found[n], x[n]) for n in x if n != HEAD)


def test_spreading_moves_rows_apart() -> None:
    x = drawn(3)
    found, _ = SpreadHead().update(x, x, {}, MODEL)
    assert float(losses.spread(found[HEAD], margin=0.9)) < float(losses.spread(x[HEAD], margin=0.9))
    assert hinge(found[HEAD], 0.9) == pytest.approx(float(losses.spread(found[HEAD], margin=0.9)))
