"""FedOVA: one binary network per class, trained and averaged by the clients that hold the class."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Result, Setting, Tree, average, descend, loaded, state_of


def run(
    setting: Setting,
    everybody_counts: bool = False,
    reset_untouched: bool = False,
    arrival: float | None = None,
) -> Result:
    """With `arrival`, components are mixed in at that rate as they arrive, clients with few steps first."""
    start = [{n: v[i] for n, v in setting.initial.items()} for i in range(setting.classes)]
    server, last = start, {}
    for t in range(setting.rounds):
        trained: list[list[Tree]] = [[] for _ in range(setting.classes)]
        order = sorted(setting.participants(t), key=lambda k: (len(setting.batches(t, k)), k))
        for k in order:
            own = setting.counts(k).nonzero()[:, 0].tolist()
            last[k] = {}
            for i in range(setting.classes):
                if i in own and len(own) > 1:
                    last[k][i] = component(setting, server[i], i, t, k)
                    trained[i].append(last[k][i])
                elif everybody_counts:
                    trained[i].append(server[i])
        untouched = start if reset_untouched else server
        server = [
            combined(server[i], found, arrival) if found else untouched[i] for i, found in enumerate(trained)
        ]
    # At home a client answers with its own components and the server's for the rest.
    personal = {k: stack([own.get(i, server[i]) for i in range(setting.classes)]) for k, own in last.items()}
    return Result(stack(server), personal)


def combined(old: Tree, found: list[Tree], arrival: float | None) -> Tree:
    """The mean of what was returned, or one after the other."""
    if arrival is None:
        return average(found, [1.0] * len(found))
    for new in found:
        old = average([old, new], [1 - arrival, arrival])
    return old


def component(setting: Setting, state: Tree, i: int, t: int, k: int) -> Tree:
    """The network of class i after client k's epochs on "is it i?"."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(model(x)[:, 0], (y == i).double())

    model = loaded(setting.build(1), state)
    descend(setting, model, setting.batches(t, k), loss)
    return state_of(model)


def stack(states: list[Tree]) -> Tree:
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}
