"""FedRep: E-1 epochs on the private head, one on the shared body; the server averages bodies."""

from references.common import (
    Batches,
    Result,
    Setting,
    average,
    cross_entropy,
    is_head,
    loaded,
    solver,
    state_of,
)


def run(setting: Setting, head_leaks: bool = False) -> Result:
    whole, personal = setting.initial, {}
    private = {name for name in whole if is_head(setting.network(), name)}
    body = {name: value for name, value in whole.items() if name not in private}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            head = {name: personal.get(k, whole)[name] for name in private}
            model = loaded(setting.build(setting.classes), {**body, **head})
            switch = setting.steps(k) - setting.steps(k) // setting.training.epochs
            train_only(setting, model, private, True, setting.batches(t, k, 0, switch))
            train_only(setting, model, private, False, setting.batches(t, k, switch))
            personal[k] = state_of(model)
        mean = average([personal[k] for k in chosen], [setting.size(k) for k in chosen])
        body = {name: mean[name] for name in body}
        if head_leaks:
            whole = mean
            personal = {k: {**v, **{n: mean[n] for n in private}} for k, v in personal.items()}
    return Result(body, personal)


def train_only(setting: Setting, model, private: set[str], heads: bool, batches: Batches) -> None:
    """Steps on the head alone, or on the body alone."""
    sgd = solver(setting, [w for name, w in model.named_parameters() if (name in private) == heads])
    for x, y in batches:
        sgd.step(cross_entropy(model, x, y))
