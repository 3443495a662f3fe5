"""Biased squared MMD with five Gaussian kernels, as a sum over pairs (spec 4.2)."""

import torch
from torch import Tensor


def squared_mmd(a: Tensor, b: Tensor) -> Tensor:
    """Mean over B x B of k(a,a') + k(b,b') - k(a,b') - k(b,a'); no gradient through the width."""
    points = torch.cat([a, b])
    n = len(points)
    d2 = (points[:, None] - points[None]).square().sum(-1)
    width = d2.detach().sum() / (n * n - n) + 1e-8
    kernel = sum((-d2 / (width / 4 * 2**j)).exp() for j in range(5))
    m = len(a)
    return (kernel[:m, :m] + kernel[m:, m:] - kernel[:m, m:] - kernel[m:, :m]).mean()
