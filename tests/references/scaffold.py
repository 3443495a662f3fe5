"""SCAFFOLD, option II: w -= eta (g - c_k + c); changes of c_k are divided by the number of ALL clients."""

import torch

from references.common import LossOf, Result, Setting, Sgd, average, loaded, plain, state_of
from references.fednova import effective


def run(
    setting: Setting,
    divide_by: str = "population",
    momentum: float = 0.0,
    correction: bool = False,
    loss: LossOf = plain,
) -> Result:
    """With `correction`, c_k is the movement over FedNova's effective steps, which allows momentum."""
    server, personal = setting.initial, {}
    zero = [torch.zeros_like(w) for w in setting.network().parameters()]
    c, own = zero, {}
    for t in range(setting.rounds):
        chosen, changes = setting.participants(t), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            x0 = [w.detach().clone() for w in model.parameters()]
            c_k, batches = own.get(k, zero), setting.batches(t, k)
            sgd = Sgd(model.parameters(), setting.lr, momentum, setting.decay)
            for x, y in batches:
                sgd.step(loss(k)(model, x, y), [a - b for a, b in zip(c, c_k, strict=True)])
            steps = effective(len(batches), momentum) if correction else len(batches)
            length = steps * setting.lr
            ends = [w.detach().clone() for w in model.parameters()]
            own[k] = [b - a + (s - e) / length for b, a, s, e in zip(c_k, c, x0, ends, strict=True)]
            changes.append([new - old for new, old in zip(own[k], c_k, strict=True)])
            personal[k] = state_of(model)
        server = average([personal[k] for k in chosen], [1.0] * len(chosen))
        by = setting.clients if divide_by == "population" else len(chosen)
        c = [old + sum(change[i] for change in changes) / by for i, old in enumerate(c)]
    return Result(server, personal)
