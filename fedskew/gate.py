"""The update gate: which replies of a round may enter the average, and why the others may not.

What a good reply looks like is not declared by methods but taken from two clients that train nothing: one
with one class, one with two. A length that differs between them is the number of a client's classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew.algorithm import Algorithm
from fedskew.ranges import Count, Positive, enforce
from fedskew.tree import State, Tree
from fedskew.values import Client, Plan, Refusal, Reply

Shape = tuple[int | None, ...]  # None: as many as the client has classes
NUMBERS = tuple(Reply._fields[2:])
HOPELESS = 1e6  # a client's mean loss from which nothing comes back, though its numbers may stay finite


@dataclass(frozen=True)
class Limits:
    """What a reply may hold at most, and how many good ones a round needs."""

    norm: Positive = 1e4  # of the change of the shared entries
    largest: Positive = 1e8  # of any other number: examples, steps, losses, what parts send
    minimum: Count = 1

    def __post_init__(self) -> None:
        enforce(self)


class Slot(NamedTuple):
    """One expected tensor."""

    dtype: torch.dtype
    shape: Shape


class Form(NamedTuple):
    """Every tensor of a good reply, by place."""

    slots: Mapping[str, Slot]
    classes: int


class Admission(NamedTuple):
    """Who may enter the average, in the order asked; nobody where too few are good."""

    replies: dict[int, Reply]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True)
class Gate:
    """The limits of a run and the form of its replies."""

    algorithm: Algorithm
    form: Form
    limits: Limits = Limits()

    @classmethod
    def of(cls, algorithm: Algorithm, example: Sequence[int], limits: Limits) -> Gate:
        """The gate of an algorithm whose examples have this shape."""
        return cls(algorithm, form(algorithm, example), limits)

    def admit(self, answers: Sequence[tuple[int, Reply]], asked: Sequence[int], message: State) -> Admission:
        """Sorts the answers; the first of several by one client counts."""
        good: dict[int, Reply] = {}
        refused = []
        for client, reply in answers:
            reason = self._stranger(client, asked, good) or self.wrong(reply, message)
            if reason:
                refused.append(Refusal(client, reason))
            else:
                good[client] = reply
        if len(good) < self.limits.minimum:
            few = f"only {len(good)} good replies, {self.limits.minimum} are needed"
            return Admission({}, (*refused, *(Refusal(client, few) for client in sorted(good))))
        return Admission({client: good[client] for client in asked if client in good}, tuple(refused))

    def _stranger(self, client: int, asked: Sequence[int], good: Mapping[int, Reply]) -> str:
        if client not in asked:
            return "was not asked"
        return "has answered already" if client in good else ""

    def wrong(self, reply: Reply, message: State) -> str:
        """Why a reply cannot be used; empty if it can."""
        found = dict(places(reply))
        return (
            _misshapen(found, self.form)
            or _not_finite(found)
            or self._implausible(reply)
            or self._too_far(reply.shared, message["shared"])
            or self._refused_by_part(reply.extra)
        )

    def _implausible(self, reply: Reply) -> str:
        if reply.samples < 1 or reply.samples != reply.samples.round():
            return f"{float(reply.samples):g} examples"
        for name in ("steps", "effective_steps"):
            if getattr(reply, name) < 0:
                return f"{name} is negative"
        if abs(reply.loss) >= HOPELESS:
            return f"its training diverged to a loss of {float(reply.loss):.3g}"
        others = {f"{part}/{name}": v for part, tree in reply.extra.items() for name, v in tree.items()}
        for name, value in {**others, **{n: getattr(reply, n) for n in NUMBERS}}.items():
            if bool((value.double().abs() > self.limits.largest).any()):
                return f"{name} is larger than {self.limits.largest:g}"
        return ""

    def _too_far(self, sent: Tree, before: Tree) -> str:
        """The change, or where only some classes' rows came back what they can have been at most."""
        whole = all(value.shape == before[name].shape for name, value in sent.items())
        room = self.limits.norm if whole else self.limits.norm + _length(before)
        moving = {name: value for name, value in sent.items() if value.is_floating_point()}
        length = _length({n: value.double() - before[n] if whole else value for n, value in moving.items()})
        return f"a change of norm {length:.3g}, the limit is {room:.3g}" if length > room else ""

    def _refused_by_part(self, extra: State) -> str:
        model, part = self.algorithm.model, self.algorithm.part
        reasons = (part(name).refuses(tree, model) for name, tree in extra.items())
        return next(filter(None, reasons), "")


def places(reply: Reply) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a reply with where it stands."""
    yield from ((f"shared/{name}", value) for name, value in reply.shared.items())
    for part, tree in reply.extra.items():
        yield from ((f"extra/{part}/{name}", value) for name, value in tree.items())
    yield from ((name, getattr(reply, name)) for name in NUMBERS)


def form(algorithm: Algorithm, example: Sequence[int]) -> Form:
    """What the replies of an algorithm look like."""
    message = algorithm.message(algorithm.init(), 0)
    one, two = (
        dict(places(algorithm.local(message, algorithm.fresh(0), _idle(algorithm, example, labels))[0]))
        for labels in (1, 2)
    )
    slots = {name: Slot(value.dtype, _shape(one[name], value)) for name, value in two.items()}
    return Form(slots, algorithm.model.classes)


def _shape(one: Tensor, two: Tensor) -> Shape:
    return tuple(a if a == b else None for a, b in zip(one.shape, two.shape, strict=True))


def _idle(algorithm: Algorithm, example: Sequence[int], labels: int) -> Client:
    """A client with two blank examples of each of its classes and nothing to train on."""
    y = torch.arange(labels).repeat(2)
    counts = torch.zeros(algorithm.model.classes, dtype=torch.int64)
    counts[:labels] = 2
    plans = tuple(Plan(()) for _ in algorithm.phases(0))
    x = torch.zeros(len(y), *example, dtype=algorithm.dtype)
    epoch = Plan((torch.arange(len(y)),))
    return Client(x, y, counts, torch.arange(labels), None, plans, torch.tensor(0), epoch)


def _misshapen(found: Mapping[str, Tensor], form: Form) -> str:
    if missing := form.slots.keys() - found.keys():
        return f"{min(missing)} is missing"
    if surplus := found.keys() - form.slots.keys():
        return f"{min(surplus)} is unknown"
    rows: set[int] = set()
    for name, slot in form.slots.items():
        value = found[name]
        if value.dtype != slot.dtype:
            return f"{name} is {value.dtype}, not {slot.dtype}"
        if not _fits(value.shape, slot.shape):
            return f"{name} has the shape {tuple(value.shape)}, not {slot.shape}"
        rows |= {size for size, want in zip(value.shape, slot.shape, strict=True) if want is None}
    if len(rows) > 1 or not all(0 < count <= form.classes for count in rows):
        return f"the entries are for {' or '.join(map(str, sorted(rows)))} classes of {form.classes}"
    return ""


def _fits(shape: Sequence[int], wanted: Shape) -> bool:
    same = (want in (None, size) for size, want in zip(shape, wanted, strict=False))
    return len(shape) == len(wanted) and all(same)


def _not_finite(found: Mapping[str, Tensor]) -> str:
    lost = (name for name, value in found.items() if not bool(value.isfinite().all()))
    return next((f"{name} is not finite" for name in lost), "")


def _length(tree: Tree) -> float:
    squares = (float(value.double().square().sum()) for value in tree.values() if value.is_floating_point())
    return math.sqrt(math.fsum(squares))
