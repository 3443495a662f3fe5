"""FedRoD, linear: body and generic head by balanced softmax, beside it a private head by cross-entropy."""

from copy import deepcopy

import torch
import torch.nn.functional as F

from references.common import Result, Setting, Tree, average, loaded, solver, state_of


def run(setting: Setting, gamma: float = 1.0) -> Result:
    server, heads, trained = setting.initial, {}, {}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            head = heads.get(k) or loaded(setting.build(setting.classes), setting.initial)[-1]
            n = setting.counts(k)
            held = n > 0
            prior = torch.where(held, gamma * torch.where(held, n, 1.0).log(), -torch.inf)
            generic, own = solver(setting, model.parameters()), solver(setting, head.parameters())
            for x, y in setting.batches(t, k):
                features = model[:-1](x)
                logits = model[-1](features)
                fixed, anyhow = features.detach(), logits.detach()
                generic.step(F.cross_entropy(logits + prior, y))
                own.step(F.cross_entropy(anyhow + head(fixed), y))
            heads[k] = deepcopy(head)
            trained[k] = state_of(model)
        server = average([trained[k] for k in chosen], [setting.size(k) for k in chosen])
    return Result(server, {k: summed(trained[k], heads[k].state_dict()) for k in trained})


def summed(model: Tree, head: Tree) -> Tree:
    """Two linear heads on the same features are one linear head: W = G + P."""
    last = max(int(name.split(".")[0]) for name in model)
    return {**model, **{f"{last}.{n}": model[f"{last}.{n}"] + value for n, value in head.items()}}
