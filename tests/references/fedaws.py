"""FedAwS: FedAvg, then the server pushes rows of the head apart that are nearer than a margin."""

import torch

from references.common import Result, Setting, Sgd, average, descend, loaded, state_of


def run(
    setting: Setting, margin: float = 0.9, lr: float = 1.0, momentum: float = 0.9, steps: int = 20
) -> Result:
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            descend(setting, model, setting.batches(t, k))
            personal[k] = state_of(model)
        model = loaded(
            setting.build(setting.classes),
            average([personal[k] for k in chosen], [setting.size(k) for k in chosen]),
        )
        rows = model[-1].weight
        sgd = Sgd([rows], lr, momentum, 0.0)
        for _ in range(steps):
            total = torch.zeros((), dtype=torch.float64)
            for a in range(setting.classes):
                for b in range(setting.classes):
                    if a != b:
                        cosine = rows[a] @ rows[b] / (rows[a].norm() * rows[b].norm())
                        total = total + (margin - 0.5 * (1 - cosine)).clamp(min=0) ** 2
            sgd.step(total / setting.classes**2)
        server = state_of(model)
    return Result(server, personal)
