"""The tiny setting of every reference loop and the few steps all of them share, written out."""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedskew import keys
from fedskew.data.dataset import Indices
from fedskew.data.federation import Federation, Training

Tree = dict[str, Tensor]
Batches = list[tuple[Tensor, Tensor]]
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
LossOf = Callable[[int], Loss]  # of a client


class Setting(NamedTuple):
    """Who trains on what and how; the algorithm is the reference's own."""

    federation: Federation
    build: Callable[[int], nn.Module]  # number of outputs -> a Sequential whose last module is the head
    initial: Tree
    drawn: Callable[[int], dict[str, Tree]]  # what a client draws at random before its first round
    training: Training
    seed: int
    rounds: int = 3
    ratio: float = 0.5
    lr: float = 0.1
    momentum: float = 0.9
    decay: float = 0.01
    clip: float = math.inf
    warmup: int = 1

    def at(self, t: int) -> "Setting":
        """The setting of round t: the rate grows linearly in the first rounds."""
        return self._replace(lr=self.lr * min((t + 1) / self.warmup, 1.0))

    @property
    def clients(self) -> int:
        return self.federation.clients

    @property
    def classes(self) -> int:
        return self.federation.classes

    def participants(self, t: int) -> tuple[int, ...]:
        return self.federation.participants(self.seed, t, self.ratio)

    def counts(self, k: int) -> Tensor:
        """Training examples of each class at client k."""
        labels = self.federation.data.y[torch.from_numpy(self.federation.partition.train[k])]
        return torch.tensor([(labels == c).sum() for c in range(self.classes)], dtype=torch.float64)

    def size(self, k: int) -> float:
        return float(len(self.federation.partition.train[k]))

    def steps(self, k: int) -> int:
        """E * ceil(n_k / B): the length of a client's plan."""
        return self.training.epochs * -(-int(self.size(k)) // self.training.batch)

    def batches(self, t: int, k: int, first: int = 0, end: int | None = None) -> Batches:
        """Batches first..end of client k's plan in round t."""
        return self._usable(self.federation.batches(self.seed, t, k, self.training)[first:end])

    def _usable(self, plan: Sequence[Indices]) -> Batches:
        """The examples of the batches; BatchNorm cannot train on one example."""
        normalised = any(
            isinstance(module, nn.modules.batchnorm._BatchNorm) for module in self.build(1).modules()
        )
        places = [torch.from_numpy(chosen) for chosen in plan if len(chosen) > 1 or not normalised]
        return [(self.federation.data.x[p].double(), self.federation.data.y[p]) for p in places]

    def home(self, k: int) -> Batches:
        """One pass over client k's data in an order that no round changes."""
        own, size = self.federation.partition.train[k], self.training.batch
        shuffled = own[keys.stream("epoch", self.seed, k).permutation(len(own))]
        return self._usable([shuffled[i : i + size] for i in range(0, len(own), size)])

    def everything(self, k: int) -> tuple[Tensor, Tensor]:
        """All training examples of client k."""
        place = torch.from_numpy(self.federation.partition.train[k])
        return self.federation.data.x[place].double(), self.federation.data.y[place]

    def network(self) -> nn.Module:
        """The common initial network in double precision."""
        return loaded(self.build(self.classes), self.initial)


class Result(NamedTuple):
    """What a reference ends with."""

    server: Tree  # what is averaged
    personal: dict[int, Tree]  # the whole network with which a client that took part predicts at home


class Sgd:
    """Gradient descent: m <- rho m + (g + decay w), w <- w - lr m."""

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, momentum: float, decay: float, clip: float = math.inf
    ) -> None:
        self.parameters = list(parameters)
        self.lr, self.rho, self.decay, self.clip = lr, momentum, decay, clip
        self.memory = [torch.zeros_like(w) for w in self.parameters]

    def step(self, loss: Tensor, pull: Sequence[Tensor] | None = None) -> None:
        """One step along the gradient of the loss, plus `pull` where there is one."""
        gradients = list(torch.autograd.grad(loss, self.parameters))
        if pull:
            gradients = [g + p for g, p in zip(gradients, pull, strict=True)]
        norm = float(torch.cat([g.flatten() for g in gradients]).norm())
        factor = min(self.clip / (norm + 1e-6), 1.0)
        with torch.no_grad():
            for i, (w, g) in enumerate(zip(self.parameters, gradients, strict=True)):
                self.memory[i] = self.rho * self.memory[i] + factor * g + self.decay * w
                w.sub_(self.lr * self.memory[i])


def solver(setting: Setting, parameters: Iterable[Tensor], slower: float = 1.0) -> Sgd:
    """A new solver, without memory of an earlier round."""
    return Sgd(parameters, slower * setting.lr, setting.momentum, setting.decay, setting.clip)


def plain(k: int) -> Loss:
    return cross_entropy


def cross_entropy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def descend(
    setting: Setting, model: nn.Module, batches: Batches, loss: Loss = cross_entropy, slower: float = 1.0
) -> float:
    """Trains the whole network over the batches; the mean loss over all examples seen."""
    sgd, total, seen = solver(setting, model.parameters(), slower), 0.0, 0
    for x, y in batches:
        value = loss(model, x, y)
        sgd.step(value)
        total, seen = total + float(value.detach()) * len(y), seen + len(y)
    return total / max(seen, 1)


def average(states: Sequence[Tree], weights: Sequence[float]) -> Tree:
    """Weighted mean, the weights made to sum to one; counters take the maximum."""
    whole = sum(weights)
    out = {}
    for name, first in states[0].items():
        if first.is_floating_point():
            parts = [w / whole * state[name] for w, state in zip(weights, states, strict=True)]
            out[name] = torch.stack(parts).sum(0)
        else:
            out[name] = torch.stack([state[name] for state in states]).amax(0)
    return out


def state_of(model: nn.Module) -> Tree:
    """A copy of parameters and buffers."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def loaded(model: nn.Module, state: Tree) -> nn.Module:
    """The module in double precision with these entries."""
    model = deepcopy(model).double()
    model.load_state_dict(state)
    return model.train()


def is_head(model: nn.Module, name: str) -> bool:
    """Whether the entry belongs to the last module, the classifier."""
    last = list(dict(model.named_children()))[-1]
    return name.startswith(f"{last}.")


def fedavg_with(setting: Setting, loss: LossOf, weigh: Callable[[int], float] | None = None) -> Result:
    """FedAvg in which client k minimises `loss(k)` and has weight `weigh(k)`, else its number of examples."""
    weigh = weigh or setting.size
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            descend(setting.at(t), model, setting.batches(t, k), loss(k))
            personal[k] = state_of(model)
        server = average([personal[k] for k in chosen], [weigh(k) for k in chosen])
    return Result(server, personal)
