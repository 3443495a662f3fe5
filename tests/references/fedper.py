"""FedPer and LG-FedAvg: all layers train together, some are averaged, the others never leave the client."""

from collections.abc import Callable

from torch import nn

from references.common import Result, Setting, average, descend, is_head, loaded, state_of


def run(setting: Setting) -> Result:
    return partly(setting, lambda name: not is_head(setting.network(), name))


def lg(setting: Setting, layers: int) -> Result:
    """LG-FedAvg: the last layers are shared, the representation is private."""
    weighty = [name for name, module in setting.network().named_children() if list(module.parameters())]
    top = tuple(f"{name}." for name in weighty[-layers:])
    return partly(setting, lambda name: name.startswith(top))


def partly(setting: Setting, is_shared: Callable[[str], bool]) -> Result:
    shared, personal = {n: v for n, v in setting.initial.items() if is_shared(n)}, {}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model: nn.Module = loaded(
                setting.build(setting.classes), {**personal.get(k, setting.initial), **shared}
            )
            descend(setting, model, setting.batches(t, k))
            personal[k] = state_of(model)
        uploads = [{n: personal[k][n] for n in shared} for k in chosen]
        shared = average(uploads, [setting.size(k) for k in chosen])
    return Result(shared, personal)
