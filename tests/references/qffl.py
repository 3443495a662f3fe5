"""q-FFL: weights by the q-th power of the losses (GRP-FED's reading), and q-FedAvg as first published."""

import torch.nn.functional as F

from references.common import Result, Setting, average, descend, loaded, state_of


def run(setting: Setting, q: float = 10.0) -> Result:
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen, losses = setting.participants(t), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            losses.append(descend(setting, model, setting.batches(t, k)))
            personal[k] = state_of(model)
        server = average([personal[k] for k in chosen], [loss**q for loss in losses])
    return Result(server, personal)


def qfedavg(setting: Setting, q: float = 10.0) -> Result:
    """g = L (w - w_k), Delta = F^q g, h = q F^(q-1) |g|^2 + L F^q, w -= sum Delta / sum h, L = 1 / lr."""
    server, personal = setting.initial, {}
    moving = [name for name, _ in setting.network().named_parameters()]
    length = 1 / setting.lr
    for t in range(setting.rounds):
        chosen, deltas, hs = setting.participants(t), [], []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server).eval()
            x, y = setting.everything(k)
            loss = float(F.cross_entropy(model(x), y).detach()) + 1e-10
            descend(setting, model.train(), setting.batches(t, k))
            personal[k] = state_of(model)
            g = {n: length * (server[n] - personal[k][n]) for n in moving}
            norm2 = sum(float(value.square().sum()) for value in g.values())
            deltas.append({n: loss**q * value for n, value in g.items()})
            hs.append(q * loss ** (q - 1) * norm2 + length * loss**q)
        new = average([personal[k] for k in chosen], [1.0] * len(chosen))
        for n in moving:
            new[n] = server[n] - sum(delta[n] for delta in deltas) / sum(hs)
        server = new
    return Result(server, personal)
