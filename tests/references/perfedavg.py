"""Per-FedAvg: w' = w - alpha g1(w), then w -= beta g2(w'); HF corrects g2 by a difference of gradients."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from references.common import Batches, Result, Setting, Sgd, average, cross_entropy, loaded, state_of

Gradient = list[Tensor]


def run(setting: Setting, hessian: bool = False, beta: float = 1e-3, same_batch: bool = False) -> Result:
    server, seen = setting.initial, set()
    width = 3 if hessian else 2
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            model, batches = loaded(setting.build(setting.classes), server), setting.batches(t, k)
            # A client with fewer batches than a step needs sees them again.
            for s in range(max(1, len(batches) // width)):
                group = [batches[(s * width + i) % len(batches)] for i in range(width)]
                meta_step(setting, model, [group[0]] * width if same_batch else group, beta)
            uploads.append(state_of(model))
        server = average(uploads, [setting.size(k) for k in chosen])
        seen |= set(chosen)
    return Result(server, {k: at_home(setting, server, k) for k in seen})


def meta_step(setting: Setting, model: nn.Module, group: Batches, beta: float, delta: float = 1e-3) -> None:
    """One step on two batches (FO) or three (HF); the network's statistics are those of the second batch."""
    start = deepcopy(model)
    first = gradient(setting, deepcopy(model), group[0])
    move(model, start, first, -setting.lr)
    total = second = gradient(setting, model, group[1])
    if len(group) == 3:
        ahead, back = deepcopy(start), deepcopy(start)
        move(ahead, start, second, delta)
        move(back, start, second, -delta)
        pairs = zip(gradient(setting, ahead, group[2]), gradient(setting, back, group[2]), strict=True)
        bends = [setting.lr / (2 * delta) * (a - b) for a, b in pairs]
        total = [g - bend for g, bend in zip(second, bends, strict=True)]
    move(model, start, total, -beta)


def gradient(setting: Setting, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Gradient:
    params = list(model.parameters())
    found = torch.autograd.grad(cross_entropy(model, *batch), params)
    return [g + setting.decay * w.detach() for g, w in zip(found, params, strict=True)]


def move(model: nn.Module, start: nn.Module, direction: Gradient, by: float) -> None:
    """Puts the parameters at start + by * direction."""
    for w, w0, d in zip(model.parameters(), start.parameters(), direction, strict=True):
        w.data.copy_(w0.data + by * d)


def at_home(setting: Setting, server: dict[str, Tensor], k: int) -> dict[str, Tensor]:
    """The server's network after one epoch of plain steps over client k's data."""
    model = loaded(setting.build(setting.classes), server)
    sgd = Sgd(model.parameters(), setting.lr, 0.0, setting.decay)
    for x, y in setting.home(k):
        sgd.step(cross_entropy(model, x, y))
    return state_of(model)
