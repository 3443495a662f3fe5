"""FedAvg: every participant trains the received network, the server takes the mean weighted by n_k."""

from references.common import (
    Result,
    Setting,
    average,
    cross_entropy,
    descend,
    fedavg_with,
    loaded,
    plain,
    solver,
    state_of,
)


def run(setting: Setting, weight: str = "samples") -> Result:
    return fedavg_with(setting, plain, setting.size if weight == "samples" else lambda k: 1.0)


def own_statistics(setting: Setting) -> Result:
    """Parameters are averaged; the statistics of BatchNorm stay with the client."""
    server, personal = setting.initial, {}
    moving = {name for name, _ in setting.network().named_parameters()}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            state = {n: server[n] if n in moving else v for n, v in personal.get(k, setting.initial).items()}
            model = loaded(setting.build(setting.classes), state)
            descend(setting, model, setting.batches(t, k))
            personal[k] = state_of(model)
        server = average([personal[k] for k in chosen], [setting.size(k) for k in chosen])
    return Result({n: server[n] for n in server if n in moving}, personal)


def momentum_survives(setting: Setting) -> Result:
    """The trap: a client's solver remembers the last round."""
    server, personal, memories = setting.initial, {}, {}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            sgd = solver(setting, model.parameters())
            sgd.memory = memories.get(k, sgd.memory)
            for x, y in setting.batches(t, k):
                sgd.step(cross_entropy(model, x, y))
            personal[k], memories[k] = state_of(model), sgd.memory
        server = average([personal[k] for k in chosen], [setting.size(k) for k in chosen])
    return Result(server, personal)
