"""AFL: weights of all clients on the simplex climb along the losses; the mean uses the participants' own."""

import torch
from torch import Tensor

from references.common import Result, Setting, average, descend, loaded, state_of


def run(setting: Setting, rate: float = 0.1, project: bool = True) -> Result:
    server, personal = setting.initial, {}
    weights = torch.full((setting.clients,), 1 / setting.clients, dtype=torch.float64)
    for t in range(setting.rounds):
        chosen, losses = list(setting.participants(t)), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            losses.append(descend(setting, model, setting.batches(t, k)))
            personal[k] = state_of(model)
        mine = weights[chosen]
        mine = mine if mine.sum() > 0 else torch.ones_like(mine)
        server = average([personal[k] for k in chosen], mine.tolist())
        for k, loss in zip(chosen, losses, strict=True):
            weights[k] += rate * loss
        weights = onto_simplex(weights) if project else weights / weights.sum()
    return Result(server, personal)


def onto_simplex(v: Tensor) -> Tensor:
    """The nearest point with entries >= 0 and sum 1, by bisection for the common shift."""
    low, high = float(v.min()) - 2, float(v.max())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float((v - middle).clamp(min=0).sum()) > 1 else (low, middle)
    return (v - (low + high) / 2).clamp(min=0)
