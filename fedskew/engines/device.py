"""Clients on a device such as a graphics card: what they need is sent there, what they answer comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from fedskew.algorithm import BATCH, Algorithm
from fedskew.data.federation import Federation
from fedskew.errors import ConfigError
from fedskew.local import Differentiate, autograd
from fedskew.tree import State, Tree
from fedskew.values import Client, Reply

T = TypeVar("T")


@dataclass(frozen=True)
class OnDevice(Algorithm):
    """An algorithm whose clients compute on a device; the server and all that is kept stay in main memory."""

    device: str = "cpu"

    def local(
        self, message: State, kept: State, data: Client, differentiate: Differentiate = autograd
    ) -> tuple[Reply, State]:
        """A client's whole round, on the device."""
        with torch.device(self.device):
            reply, state = Algorithm.local(
                self, self._sent(message), self.there(kept), self.there(data), differentiate
            )
        return self.home(reply), self.home(state)

    def adapted(self, server: State, kept: State | None, data: Client, steps: int | None) -> Tree:
        """The server's network after some steps, which are taken on the device."""
        private = kept or {"private": {name: self.initial[name] for name in self.private}}
        with torch.device(self.device):
            found = Algorithm.adapted(self, self.there(server), self.there(private), self.there(data), steps)
        return self.home(found)

    def predict(self, params: Tree, x: Tensor, batch: int = BATCH) -> Tensor:
        """Logits in main memory."""
        with torch.device(self.device):
            logits = Algorithm.predict(self, self.there(params), self.there(x), batch)
        return self.home(logits)

    def _sent(self, message: State) -> State:
        """The round's number stays: it is read before anything is computed."""
        return {name: tree if name == "clock" else self.there(tree) for name, tree in message.items()}

    def home(self, value: T) -> T:
        """The same in main memory."""
        return _moved(value, Tensor.cpu)

    def there(self, value: T) -> T:
        """The same on the device."""
        return _moved(value, lambda tensor: tensor.to(self.device))


def placed(algorithm: Algorithm, federation: Federation, device: str) -> tuple[Algorithm, Federation]:
    """The algorithm with its clients on the device, and the federation with its pool of examples there."""
    if device == "cpu":
        return algorithm, federation
    check(device)
    same = {field.name: getattr(algorithm, field.name) for field in fields(Algorithm)}
    data = federation.data
    moved = replace(federation, data=data._replace(x=data.x.to(device)))
    return OnDevice(**same, device=device), moved


def check(device: str) -> None:
    """Refuses a device that torch cannot use here."""
    try:
        torch.zeros((), device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).partition("\n")[0].rstrip(".")
        raise ConfigError(
            f"engine.device = '{device}': torch cannot use it here ({first}). "
            "Set engine.device = 'cpu', or install a build of torch for this device."
        ) from None


def _moved(value: T, move: Callable[[Tensor], Tensor]) -> T:
    """Dictionaries and tuples of tensors with every tensor moved."""
    made: Any = value
    if isinstance(value, Tensor):
        made = move(value)
    elif isinstance(value, dict):
        made = {name: _moved(item, move) for name, item in value.items()}
    elif isinstance(value, tuple):
        items = [_moved(item, move) for item in value]
        made = tuple(items) if type(value) is tuple else type(value)(*items)  # a NamedTuple
    found: T = made
    return found
