"""FedDML (Federated Mutual Learning): on every batch the uploaded and a private network teach each other in turn.

L_uploaded = (1 - a) CE + a KL(private || uploaded), one step; then, by what the uploaded network says now,
L_private = (1 - b) CE + b KL(uploaded || private), one step.
"""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Result, Setting, average, loaded, solver, state_of


def run(
    setting: Setting, a: float = 0.5, b: float = 0.5, at_once: bool = False, backwards: bool = False
) -> Result:
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            shared = loaded(setting.build(setting.classes), server)
            own = loaded(setting.build(setting.classes), personal.get(k, setting.initial))
            steps = solver(setting, shared.parameters()), solver(setting, own.parameters())
            for x, y in setting.batches(t, k):
                before = deepcopy(shared)
                steps[0].step(taught(shared, own, x, y, a, backwards))
                steps[1].step(taught(own, before if at_once else shared, x, y, b, backwards))
            uploads.append(state_of(shared))
            personal[k] = state_of(own)
        server = average(uploads, [setting.size(k) for k in chosen])
    return Result(server, personal)


def taught(
    student: nn.Module, teacher: nn.Module, x: Tensor, y: Tensor, weight: float, backwards: bool
) -> Tensor:
    logits = student(x)
    with torch.no_grad():
        p = torch.softmax(
            deepcopy(teacher)(x), -1
        )  # a copy: a lesson leaves the teacher's statistics as they are
    q = torch.softmax(logits, -1)
    kl = q * (q / p).log() if backwards else p * (p / q).log()
    return (1 - weight) * F.cross_entropy(logits, y) + weight * kl.sum(-1).mean()
