"""FedMMD: cross-entropy + weight * MMD^2 between the features of the network and of the received one."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Result, Setting, average, descend, loaded, state_of
from references.mmd import squared_mmd


def run(setting: Setting, weight: float = 0.1) -> Result:
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        received = loaded(setting.build(setting.classes), server).eval()
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)

            def loss(model: nn.Module, x: Tensor, y: Tensor, received: nn.Module = received) -> Tensor:
                features = model[:-1](x)
                with torch.no_grad():
                    theirs = received[:-1](x)
                return F.cross_entropy(model[-1](features), y) + weight * squared_mmd(features, theirs)

            descend(setting, model, setting.batches(t, k), loss)
            personal[k] = state_of(model)
        server = average([personal[k] for k in chosen], [setting.size(k) for k in chosen])
    return Result(server, personal)
