"""FedPHP: a private model inherits from every local one and teaches the next; it is never uploaded."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Loss, Result, Setting, Tree, average, cross_entropy, descend, loaded, state_of
from references.mmd import squared_mmd


class Heir(NamedTuple):
    """HPM_k and the number z_k of earlier participations."""

    model: Tree
    times: int


def run(
    setting: Setting,
    by: str = "kd",
    weight: float = 0.1,
    first_lesson: bool = False,
    count_first: bool = False,
) -> Result:
    server, heirs = setting.initial, {}
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            before = heirs.get(k)
            teacher = before.model if before else setting.initial if first_lesson else None
            descend(setting, model, setting.batches(t, k), taught(setting, teacher, by, weight))
            uploads.append(state_of(model))
            heirs[k] = inherit(setting, before, uploads[-1], count_first)
        server = average(uploads, [setting.size(k) for k in chosen])
    return Result(server, {k: heir.model for k, heir in heirs.items()})


def taught(setting: Setting, teacher: Tree | None, by: str, weight: float, backwards: bool = False) -> Loss:
    """(1 - weight) CE + weight * lesson of the teacher in evaluation mode; plain CE while there is none."""
    if teacher is None:
        return cross_entropy
    old = loaded(setting.build(setting.classes), teacher).eval()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if by == "mmd":
            with torch.no_grad():
                theirs = old[:-1](x)
            features = model[:-1](x)
            fit = F.cross_entropy(model[-1](features), y)
            return (1 - weight) * fit + weight * squared_mmd(features, theirs)
        with torch.no_grad():
            target = torch.softmax(old(x) / 4, -1)
        logits = model(x)
        fit = F.cross_entropy(logits, y)
        if by == "author":
            return (1 - weight) * fit - weight * (target * torch.log_softmax(logits, -1)).sum(-1).mean()
        student = torch.softmax(logits / 4, -1)
        kl = student * (student / target).log() if backwards else target * (target / student).log()
        return (1 - weight) * fit + weight * (1 if by == "no T2" else 16) * kl.sum(-1).mean()

    return loss


def inherit(
    setting: Setting,
    before: Heir | None,
    new: Tree,
    count_first: bool = False,
    most: float = 1.0,
    participations: float | None = None,
) -> Heir:
    """HPM <- (1 - mu) new + mu HPM with mu = 0.9 z / (Q T) up to `most`, z earlier participations."""
    if before is None:
        return Heir(new, 1)
    mu = min(0.9 * (before.times + count_first) / (participations or setting.ratio * setting.rounds), most)
    mixed = {
        name: (1 - mu) * value + mu * before.model[name] if value.is_floating_point() else value
        for name, value in new.items()
    }
    return Heir(mixed, before.times + 1)
