"""FedDyn: min f - <g_k, w> + a/2 |w - x|^2, g_k -= a (w_k - x), h -= a/K sum (w_k - x), x = mean - h/a."""

import torch

from references.common import Result, Setting, average, cross_entropy, loaded, solver, state_of


def run(setting: Setting, a: float = 0.01, divide_by: str = "population") -> Result:
    server, personal, own = setting.initial, {}, {}
    moving = [name for name, _ in setting.network().named_parameters()]
    h = {n: torch.zeros_like(server[n]) for n in moving}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            g_k = own.setdefault(k, {n: torch.zeros_like(server[n]) for n in moving})
            sgd = solver(setting, model.parameters())
            for x, y in setting.batches(t, k):
                pull = [a * (w.detach() - server[n]) - g_k[n] for n, w in model.named_parameters()]
                sgd.step(cross_entropy(model, x, y), pull)
            personal[k] = state_of(model)
            own[k] = {n: g_k[n] - a * (personal[k][n] - server[n]) for n in moving}
        by = setting.clients if divide_by == "population" else len(chosen)
        h = {n: h[n] - a / by * sum(personal[k][n] - server[n] for k in chosen) for n in moving}
        mean = average([personal[k] for k in chosen], [1.0] * len(chosen))
        server = {n: v - h[n] / a if n in h else v for n, v in mean.items()}
    return Result(server, personal)
