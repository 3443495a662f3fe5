"""Augmentation against a loop over images and pixels."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fedskew import keys
from fedskew.augment import Draws, crop_flip, draw


def by_loop(x: Tensor, draws: Draws, padding: int, fill: Tensor) -> Tensor:
    count, channels, height, width = x.shape
    out = torch.empty_like(x)
    for b in range(count):
        padded = fill.reshape(-1, 1, 1).expand(channels, height + 2 * padding, width + 2 * padding).clone()
        padded[:, padding : padding + height, padding : padding + width] = x[b]
        top, left = (int(v) for v in draws.offsets[b])
        cropped = padded[:, top : top + height, left : left + width]
        for j in range(width):
            out[b, :, :, j] = cropped[:, :, width - 1 - j if draws.flips[b] else j]
    return out


def drawn(count: int, padding: int = 4) -> Draws:
    return draw(keys.stream("augment", 0, 1, 2), count, padding)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 7, 5)])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_equals_the_loop(shape: tuple[int, ...], padding: int) -> None:
    x = torch.randn(40, *shape, dtype=torch.float64)
    fill = torch.arange(shape[0], dtype=torch.float64) - 2.5
    draws = drawn(40, padding)
    assert torch.equal(crop_flip(x, draws, padding, fill), by_loop(x, draws, padding, fill))
    assert torch.equal(
        crop_flip(x, draws, padding), by_loop(x, draws, padding, torch.zeros(1, dtype=x.dtype))
    )


def test_the_corners() -> None:
    x = torch.arange(1.0, 5.0).reshape(1, 1, 2, 2)
    kept = Draws(torch.tensor([[1, 1]]), torch.tensor([False]))
    assert torch.equal(crop_flip(x, kept, 1), x)
    mirrored = Draws(torch.tensor([[0, 1]]), torch.tensor([True]))
    assert crop_flip(x, mirrored, 1).tolist() == [[[[0, 0], [2, 1]]]]
    low = Draws(torch.tensor([[2, 2]]), torch.tensor([False]))
    assert crop_flip(x, low, 1, fill=9.0).tolist() == [[[[4, 9], [9, 9]]]]


def test_many_clients_at_once() -> None:
    x = torch.randn(3, 8, 3, 10, 10)
    draws = [draw(keys.stream("augment", 0, 5, client), 8) for client in range(3)]
    stacked = Draws(torch.stack([d.offsets for d in draws]), torch.stack([d.flips for d in draws]))
    together = torch.func.vmap(crop_flip)(x, stacked)
    for k in range(3):
        assert torch.equal(together[k], crop_flip(x[k], draws[k]))


def test_draws_follow_their_key_and_cover_the_range() -> None:
    first, again = drawn(5000), drawn(5000)
    other = draw(keys.stream("augment", 0, 1, 3), 5000)
    assert torch.equal(first.offsets, again.offsets)
    assert torch.equal(first.flips, again.flips)
    assert not torch.equal(first.offsets, other.offsets)
    for axis in range(2):
        counts = np.bincount(first.offsets[:, axis], minlength=9)
        assert len(counts) == 9
        assert counts.min() > 450  # 5000 / 9 = 556, standard deviation 22
    assert 0.46 < first.flips.double().mean() < 0.54


def test_the_precision_of_the_images_stays() -> None:
    x = torch.ones(2, 1, 4, 4, dtype=torch.float64)
    assert crop_flip(x, drawn(2), fill=0.1).dtype == torch.float64
