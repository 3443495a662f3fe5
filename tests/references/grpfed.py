"""GRP-FED: a local extractor, a discriminator between it and the global one, weights by powers of losses."""

from copy import deepcopy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import (
    Batches,
    Result,
    Setting,
    Tree,
    average,
    descend,
    is_head,
    loaded,
    solver,
    state_of,
)


class Game(NamedTuple):
    """The options of the local game, the paper's reading first; and its traps."""

    critic: str = "bce"  # or "printed"
    fooling: str = "printed"  # or "nonsaturating"
    classifier: str = "client"  # or "received"
    classifier_learns: bool = False
    forgets: str = "nothing"  # or "critic", or "extractor"


PRINTED = Game()


def run(setting: Setting, game: Game = PRINTED, weigh_before: bool = False) -> Result:
    server, extractors, personal, critics = setting.initial, {}, {}, {}
    q, previous = 10.0, None
    for t in range(setting.rounds):
        chosen, uploads, losses = setting.participants(t), [], []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            state = server if game.forgets == "extractor" else extractors.get(k, setting.initial)
            own = loaded(setting.build(setting.classes), state)
            if k not in critics or game.forgets == "critic":
                critics[k] = discriminator(setting, k)
            losses.append(play(setting, model, own, critics[k], setting.batches(t, k), game))
            uploads.append(state_of(model))
            extractors[k] = state_of(own)
            personal[k] = {n: uploads[-1][n] if is_head(own, n) else v for n, v in extractors[k].items()}
        power = q
        q, previous = next_q(q, previous, losses)
        power = power if weigh_before else q
        server = average(uploads, [loss**power for loss in losses])
    return Result(server, personal)


def aggregation(setting: Setting, report: str = "running") -> Result:
    """The adaptive weights alone; the loss is the running one, or that of the received or sent network."""
    server, personal, q, previous = setting.initial, {}, 10.0, None
    for t in range(setting.rounds):
        chosen, losses = setting.participants(t), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            running = descend(setting, model, setting.batches(t, k))
            personal[k] = state_of(model)
            scored = {"running": None, "pre": server, "post": personal[k]}[report]
            losses.append(score(setting, scored, k) if scored else running)
        q, previous = next_q(q, previous, losses)
        server = average([personal[k] for k in chosen], [loss**q for loss in losses])
    return Result(server, personal)


def score(setting: Setting, state: Tree, k: int) -> float:
    """The loss of a network over all data of client k, in evaluation mode."""
    model = loaded(setting.build(setting.classes), state).eval()
    x, y = setting.everything(k)
    with torch.no_grad():
        return float(F.cross_entropy(model(x), y))


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
    setting: Setting, model: nn.Module, own: nn.Module, critic: nn.Module, batches: Batches, game: Game
) -> float:
    """One client's round; returns the mean cross-entropy of the global branch."""
    received = deepcopy(model)
    globally = solver(setting, model.parameters())
    locally = solver(setting, [w for name, w in own.named_parameters() if not is_head(own, name)])
    judging = solver(setting, critic.parameters())
    total, seen = 0.0, 0
    for x, y in batches:
        loss = F.cross_entropy(model(x), y)
        globally.step(loss)
        total, seen = total + float(loss.detach()) * len(y), seen + len(y)
        features = own[:-1](x)
        head = (model if game.classifier == "client" else received)[-1]
        fit = F.cross_entropy(F.linear(features, head.weight.detach(), head.bias.detach()), y)
        fake = torch.sigmoid(critic(features))
        fooled = torch.log(1 - fake) if game.fooling == "printed" else -torch.log(fake)
        if game.classifier_learns:
            nudge(setting, model, features.detach(), y)
        locally.step(0.5 * fit + 0.5 * fooled.mean())
        yes, no = (torch.sigmoid(critic(features_of(m, x))) for m in (received, own))
        right = -torch.log(yes) - torch.log(1 - no)
        wrong = torch.log(1 - yes) + torch.log(no)
        judging.step((right if game.critic == "bce" else wrong).mean())
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
