"""FedOpt: the server takes the mean change of its clients for a gradient: Adam, Yogi, Adagrad or momentum."""

import torch

from references.common import Result, Setting, average, descend, loaded, state_of


def run(
    setting: Setting,
    kind: str,
    lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    tau: float = 1e-3,
    unbias: bool = False,
) -> Result:
    server, personal = setting.initial, {}
    moving = [name for name, _ in setting.network().named_parameters()]
    m = {name: torch.zeros_like(server[name]) for name in moving}
    v = {name: torch.zeros_like(server[name]) for name in moving}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            descend(setting, model, setting.batches(t, k))
            personal[k] = state_of(model)
        new = average([personal[k] for k in chosen], [setting.size(k) for k in chosen])
        for name in moving:
            change = new[name] - server[name]
            square = change * change
            if kind == "momentum":
                m[name] = b1 * m[name] + change
                new[name] = server[name] + lr * m[name]
                continue
            m[name] = b1 * m[name] + (1 - b1) * change
            if kind == "adam":
                v[name] = b2 * v[name] + (1 - b2) * square
            elif kind == "yogi":
                v[name] = v[name] - (1 - b2) * square * torch.sign(v[name] - square)
            else:
                v[name] = v[name] + square
            step, spread = (
                (m[name] / (1 - b1 ** (t + 1)), v[name] / (1 - b2 ** (t + 1)))
                if unbias
                else (m[name], v[name])
            )
            new[name] = server[name] + lr * step / (spread.sqrt() + tau)
        server = new
    return Result(server, personal)
