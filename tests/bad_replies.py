"""Sixteen ways in which a reply of FedAvg can be bad, and as many in what other methods send beside it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fedskew.algorithm import Algorithm
from fedskew.tree import State
from fedskew.values import Client, Reply

BAD = 3  # the client that misbehaves
Spoil = Callable[[Reply], Reply]


def entry(value: float) -> Spoil:
    """One number of the first shared tensor replaced."""

    def spoil(reply: Reply) -> Reply:
        name = next(iter(reply.shared))
        changed = reply.shared[name].clone()
        changed.view(-1)[0] = value
        return reply._replace(shared={**reply.shared, name: changed})

    return spoil


def number(name: str, value: float) -> Spoil:
    return lambda reply: reply._replace(**{name: torch.full_like(getattr(reply, name), value)})


def first(change: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    """The first shared tensor put through a function."""

    def spoil(reply: Reply) -> Reply:
        name = next(iter(reply.shared))
        return reply._replace(shared={**reply.shared, name: change(reply.shared[name])})

    return spoil


def without_first(reply: Reply) -> Reply:
    return reply._replace(shared=dict(list(reply.shared.items())[1:]))


def with_stranger(reply: Reply) -> Reply:
    return reply._replace(shared={**reply.shared, "stranger": torch.zeros(2)})


def sent(part: str, name: str | None, change: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    """What a part sends, or its first tensor, put through a function."""

    def spoil(reply: Reply) -> Reply:
        own = reply.extra[part]
        chosen = name or next(iter(own))
        return reply._replace(extra={**reply.extra, part: {**own, chosen: change(own[chosen])}})

    return spoil


def with_part(reply: Reply) -> Reply:
    return reply._replace(extra={**reply.extra, "Stranger": {"x": torch.zeros(1)}})


def without_parts(reply: Reply) -> Reply:
    return reply._replace(extra={})


def set_first(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(old: torch.Tensor) -> torch.Tensor:
        new = old.clone()
        new.view(-1)[0] = value
        return new

    return change


ANY: dict[str, Spoil] = {
    "nan": entry(torch.nan),
    "inf": entry(torch.inf),
    "1e30": entry(1e30),
    "scaled": first(lambda value: value * 1e6),
    "nan loss": number("loss", torch.nan),
    "negative samples": number("samples", -5),
    "no samples": number("samples", 0),
    "inf samples": number("samples", torch.inf),
    "nan samples": number("samples", torch.nan),
    "1e18 samples": number("samples", 1e18),
    "half a sample": number("samples", 2.5),
    "missing name": without_first,
    "unknown name": with_stranger,
    "broadcast": first(lambda value: value[:1]),
    "rank": first(lambda value: value.flatten()),
    "dtype": first(lambda value: value.half()),
}
C = "ControlVariates"
OF_PARTS: dict[tuple[str, str], Spoil] = {
    ("fedavg", "integers"): first(lambda value: value.to(torch.int64)),
    ("fedavg", "empty"): first(lambda value: value[:0]),
    ("fedavg", "negative steps"): number("steps", -1),
    ("fednova", "nan steps"): number("effective_steps", torch.nan),
    ("fedavg", "unknown part"): with_part,
    ("scaffold", "missing part"): without_parts,
    ("scaffold", "nan variate"): sent(C, None, set_first(torch.nan)),
    ("scaffold", "1e30 variate"): sent(C, None, set_first(1e30)),
    ("scaffold", "variate broadcasts"): sent(C, None, lambda value: value[:1]),
    ("fedova", "class 99"): sent("OwnRows", "classes", set_first(99)),
    ("fedova", "class -1"): sent("OwnRows", "classes", set_first(-1)),
    ("fedova", "same class twice"): sent(
        "OwnRows", "classes", lambda value: value[:1].expand(len(value)).clone()
    ),
    ("fedova", "one row too many"): sent("OwnRows", "classes", lambda value: torch.cat([value, value[:1]])),
    ("fedova", "all rows scaled"): first(lambda value: value * 1e6),
    ("fedproto", "negative counts"): sent("Prototypes", "counts", set_first(-3)),
    ("qfedavg", "negative loss"): sent("FairDescent", "loss", lambda value: -value - 1),
}
CASES: dict[tuple[str, str], Spoil] = {**{("fedavg", name): spoil for name, spoil in ANY.items()}, **OF_PARTS}


class Faulty(Algorithm):
    """An algorithm that one client carries out badly."""

    spoil: Spoil

    def local(self, message: State, kept: State, data: Client, *more: object) -> tuple[Reply, State]:
        reply, state = Algorithm.local(self, message, kept, data, *more)
        return (self.spoil(reply) if int(data.id) == BAD else reply), state


def faulty(algorithm: Algorithm, spoil: Spoil) -> Faulty:
    """The algorithm with its one bad client."""
    made = Faulty(**{name: getattr(algorithm, name) for name in Algorithm.__dataclass_fields__})
    object.__setattr__(made, "spoil", spoil)
    return made
