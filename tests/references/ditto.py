"""Ditto: FedAvg, and beside it a private network v with v -= lr (g(v) + strength (v - w_received))."""

from references.common import (
    LossOf,
    Result,
    Setting,
    average,
    cross_entropy,
    descend,
    loaded,
    plain,
    solver,
    state_of,
)


def run(setting: Setting, strength: float = 0.1, loss: LossOf = plain) -> Result:
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            model, own = (
                loaded(setting.build(setting.classes), state)
                for state in (server, personal.get(k, setting.initial))
            )
            anchor = [w.detach().clone() for w in model.parameters()]
            descend(setting, model, setting.batches(t, k), loss(k))
            sgd = solver(setting, own.parameters())
            for x, y in setting.batches(t, k):
                pull = [strength * (v.detach() - a) for v, a in zip(own.parameters(), anchor, strict=True)]
                sgd.step(cross_entropy(own, x, y), pull)
            uploads.append(state_of(model))
            personal[k] = state_of(own)
        server = average(uploads, [setting.size(k) for k in chosen])
    return Result(server, personal)
