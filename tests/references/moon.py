"""MOON: features drawn to those of the received network and off those of the client's previous one."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Result, Setting, Tree, average, descend, loaded, state_of


def run(setting: Setting, mu: float = 1.0, temperature: float = 0.5, swapped: bool = False) -> Result:
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            received, previous = frozen(setting, server), frozen(setting, personal.get(k, setting.initial))
            if k not in personal:
                descend(setting, model, setting.batches(t, k))  # no previous network, no term
                personal[k] = state_of(model)
                continue
            if swapped:
                received, previous = previous, received

            def loss(
                model: nn.Module, x: Tensor, y: Tensor, near: nn.Module = received, far: nn.Module = previous
            ) -> Tensor:
                features = model[:-1](x)
                with torch.no_grad():
                    theirs, mine = near[:-1](x), far[:-1](x)
                to = torch.exp(F.cosine_similarity(features, theirs) / temperature)
                off = torch.exp(F.cosine_similarity(features, mine) / temperature)
                fit = F.cross_entropy(model[-1](features), y)
                return fit + mu * -torch.log(to / (to + off)).mean()

            descend(setting, model, setting.batches(t, k), loss)
            personal[k] = state_of(model)
        server = average([personal[k] for k in chosen], [setting.size(k) for k in chosen])
    return Result(server, personal)


def frozen(setting: Setting, state: Tree) -> nn.Module:
    return loaded(setting.build(setting.classes), state).eval()
