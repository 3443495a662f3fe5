"""GRP-FED: a local extractor, a discriminator between it and the global one, weights by powers of losses."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Result, Setting, Tree, average, descend, is_head, loaded, solver, state_of


def run(setting: Setting, weigh_before: bool = False, classifier_learns: bool = False) -> Result:
    server, locals_, personal, critics = setting.initial, {}, {}, {}
    q, previous = 10.0, None
    for t in range(setting.rounds):
        chosen, uploads, losses = setting.participants(t), [], []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            own = loaded(setting.build(setting.classes), locals_.get(k, setting.initial))
            critic = critics.setdefault(k, discriminator(setting, k))
            losses.append(play(setting, model, own, critic, t, k, classifier_learns))
            uploads.append(state_of(model))
            locals_[k] = state_of(own)
            personal[k] = {n: uploads[-1][n] if is_head(own, n) else v for n, v in locals_[k].items()}
        power = q
        q, previous = next_q(q, previous, losses)
        power = power if weigh_before else q
        server = average(uploads, [loss**power for loss in losses])
    return Result(server, personal)


def aggregation(setting: Setting) -> Result:
    """The adaptive weights alone, without local extractors."""
    server, personal, q, previous = setting.initial, {}, 10.0, None
    for t in range(setting.rounds):
        chosen, losses = setting.participants(t), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            losses.append(descend(setting, model, setting.batches(t, k)))
            personal[k] = state_of(model)
        q, previous = next_q(q, previous, losses)
        server = average([personal[k] for k in chosen], [loss**q for loss in losses])
    return Result(server, personal)


def next_q(q: float, previous: float | None, losses: list[float]) -> tuple[float, float]:
    """q follows the relative change of the spread of the losses; it is never negative."""
    mean = sum(losses) / len(losses)
    spread = (sum((loss - mean) ** 2 for loss in losses) / len(losses)) ** 0.5
    if previous is not None and spread + previous > 0:
        q = max(0.0, q + 0.5 * (spread - previous) / ((spread + previous) / 2))
    return q, spread


def discriminator(setting: Setting, k: int) -> nn.Module:
    """FC d-d, LeakyReLU(0.2), FC d-1, from the client's own seed."""
    drawn = next(tree for tree in setting.drawn(k).values() if "critic/0.weight" in tree)
    width = drawn["critic/0.weight"].shape[0]
    critic = nn.Sequential(nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))
    layers = {"0": "0", "1": "2"}
    state: Tree = {
        f"{there}.{kind}": drawn[f"critic/{here}.{kind}"]
        for here, there in layers.items()
        for kind in ("weight", "bias")
    }
    return loaded(critic, state)


def play(
    setting: Setting, model: nn.Module, own: nn.Module, critic: nn.Module, t: int, k: int, leak: bool
) -> float:
    """One client's round; returns the mean cross-entropy of the global branch."""
    received = deepcopy(model)
    extractor = [w for name, w in own.named_parameters() if not is_head(own, name)]
    globally = solver(setting, model.parameters())
    locally = solver(setting, extractor)
    judging = solver(setting, critic.parameters())
    total, seen = 0.0, 0
    for x, y in setting.batches(t, k):
        loss = F.cross_entropy(model(x), y)
        globally.step(loss)
        total, seen = total + float(loss.detach()) * len(y), seen + len(y)
        features = own[:-1](x)
        fit = F.cross_entropy(F.linear(features, model[-1].weight.detach(), model[-1].bias.detach()), y)
        fooled = torch.log(1 - torch.sigmoid(critic(features)))
        if leak:
            nudge(setting, model, features.detach(), y)
        locally.step(0.5 * fit + 0.5 * fooled.mean())
        real, made = features_of(received, x), features_of(own, x)
        yes, no = torch.sigmoid(critic(real)), torch.sigmoid(critic(made))
        judging.step((-torch.log(yes) - torch.log(1 - no)).mean())
    return total / seen


def features_of(model: nn.Module, x: Tensor) -> Tensor:
    """Features in training mode, without touching the model's statistics."""
    with torch.no_grad():
        return deepcopy(model)[:-1](x)


def nudge(setting: Setting, model: nn.Module, features: Tensor, y: Tensor) -> None:
    """The trap: the local branch's gradient reaches the classifier."""
    head = list(model[-1].parameters())
    for w, g in zip(head, torch.autograd.grad(F.cross_entropy(model[-1](features), y), head), strict=True):
        w.data.sub_(setting.lr * g)
