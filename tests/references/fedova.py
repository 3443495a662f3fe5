"""FedOVA: one binary network per class, trained and averaged by the clients that hold the class."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Result, Setting, Tree, average, descend, loaded, state_of


class Rules(NamedTuple):
    """The options of FedOVA, the paper's reading first; and its traps."""

    weight: str = "uniform"  # or "samples"
    single_label: str = "skip"  # or "positive_only"
    arrival: float | None = None  # rate at which components are mixed in as they arrive, few steps first
    outputs: int = 1  # of a component; two answer with their difference
    everybody_counts: bool = False
    reset_untouched: bool = False


PRINTED = Rules()


def run(setting: Setting, rules: Rules = PRINTED) -> Result:
    start = [{n: v[i] for n, v in setting.initial.items()} for i in range(setting.classes)]
    server, last = start, {}
    for t in range(setting.rounds):
        trained: list[list[tuple[float, Tree]]] = [[] for _ in range(setting.classes)]
        for k in sorted(setting.participants(t), key=lambda k: (len(setting.batches(t, k)), k)):
            own, weight = setting.counts(k).nonzero()[:, 0].tolist(), setting.size(k)
            trains = len(own) > 1 or rules.single_label == "positive_only"
            last[k] = {i: component(setting, server[i], i, t, k, rules.outputs) for i in own if trains}
            for i in range(setting.classes):
                if i in last[k] or rules.everybody_counts:
                    new = last[k].get(i, server[i])
                    trained[i].append((weight if rules.weight == "samples" else 1.0, new))
        untouched = start if rules.reset_untouched else server
        server = [
            combined(server[i], found, rules.arrival) if found else untouched[i]
            for i, found in enumerate(trained)
        ]
    # At home a client answers with its own components and the server's for the rest.
    personal = {k: stack([own.get(i, server[i]) for i in range(setting.classes)]) for k, own in last.items()}
    return Result(stack(server), personal)


def combined(old: Tree, found: list[tuple[float, Tree]], arrival: float | None) -> Tree:
    """The mean of what was returned, or one after the other."""
    if arrival is None:
        return average([new for _, new in found], [weight for weight, _ in found])
    for _, new in found:
        old = average([old, new], [1 - arrival, arrival])
    return old


def component(setting: Setting, state: Tree, i: int, t: int, k: int, outputs: int) -> Tree:
    """The network of class i after client k's epochs on "is it i?"."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if outputs == 2:
            return F.cross_entropy(model(x), (y == i).long())
        return F.binary_cross_entropy_with_logits(model(x)[:, 0], (y == i).double())

    model = loaded(setting.build(outputs), state)
    descend(setting, model, setting.batches(t, k), loss)
    return state_of(model)


def stack(states: list[Tree]) -> Tree:
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}
