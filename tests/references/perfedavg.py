"""Per-FedAvg: w' = w - alpha g1(w), then w -= beta g2(w'); HF corrects g2 by a difference of gradients."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from references.common import Batches, Result, Setting, average, cross_entropy, loaded, state_of

Gradient = list[Tensor]


def run(setting: Setting, hessian: bool = False, beta: float = 1e-3, delta: float = 1e-3) -> Result:
    server, last = setting.initial, {}
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            batches, width = setting.batches(t, k), 3 if hessian else 2
            # A client with fewer batches than a step needs sees them again.
            for s in range(max(1, len(batches) // width)):
                group = [batches[(s * width + i) % len(batches)] for i in range(width)]
                meta_step(model, group, setting.lr, beta, delta)
            uploads.append(state_of(model))
            last[k] = uploads[-1]
        server = average(uploads, [setting.size(k) for k in chosen])
    return Result(server, last)


def meta_step(model: nn.Module, group: Batches, alpha: float, beta: float, delta: float) -> None:
    """One step of the network on a group of two batches (FO) or three (HF)."""
    params = list(model.parameters())
    start = [w.detach().clone() for w in params]
    first = gradient(model, group[0])
    g2 = moved(model, start, first, -alpha, lambda: gradient(model, group[1]))
    total = g2
    if len(group) == 3:
        ahead = moved(model, start, g2, delta, lambda: gradient(model, group[2]))
        back = moved(model, start, g2, -delta, lambda: gradient(model, group[2]))
        total = [g - alpha / (2 * delta) * (a - b) for g, a, b in zip(g2, ahead, back, strict=True)]
    with torch.no_grad():
        for w, w0, g in zip(params, start, total, strict=True):
            w.copy_(w0 - beta * g)


def gradient(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Gradient:
    return list(torch.autograd.grad(cross_entropy(model, *batch), list(model.parameters())))


def moved(
    model: nn.Module, start: Gradient, direction: Gradient, by: float, then: Callable[[], Gradient]
) -> Gradient:
    """The gradient at start + by * direction."""
    with torch.no_grad():
        for w, w0, d in zip(model.parameters(), start, direction, strict=True):
            w.copy_(w0 + by * d)
    return then()
