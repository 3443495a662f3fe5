"""FedNova: updates divided by the effective steps a_k, then one common length; momentum counts in a_k."""

from references.common import LossOf, Result, Setting, average, descend, loaded, plain, state_of


def run(setting: Setting, momentum_counts: bool = True, loss: LossOf = plain) -> Result:
    server, personal = setting.initial, {}
    moving = [name for name, _ in setting.network().named_parameters()]
    rho = setting.momentum if momentum_counts else 0.0
    for t in range(setting.rounds):
        chosen, a = setting.participants(t), []
        for k in chosen:
            model, batches = loaded(setting.build(setting.classes), server), setting.batches(t, k)
            descend(setting, model, batches, loss(k))
            personal[k] = state_of(model)
            a.append(effective(len(batches), rho))
        whole = sum(setting.size(k) for k in chosen)
        p = [setting.size(k) / whole for k in chosen]
        length = sum(p_k * a_k for p_k, a_k in zip(p, a, strict=True))
        mean = average([personal[k] for k in chosen], p)
        for name in moving:
            rows = zip(p, a, chosen, strict=True)
            normal = sum(p_k * (server[name] - personal[k][name]) / a_k for p_k, a_k, k in rows)
            mean[name] = server[name] - length * normal
        server = mean
    return Result(server, personal)


def effective(steps: int, rho: float) -> float:
    """a_k: how far so many steps go under a constant gradient, in units of the rate."""
    return sum((1 - rho**s) / (1 - rho) for s in range(1, steps + 1))
