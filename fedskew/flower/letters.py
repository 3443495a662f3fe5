"""Orders and answers, and how they are written into parcels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from fedskew.engines import wire
from fedskew.examine import Exam, Marks
from fedskew.flower.parcel import Arrays, Parcel, UnusableError
from fedskew.tree import State
from fedskew.values import Reply

Kind = Literal["train", "evaluate"]
DTYPES = frozenset({"float32", "float64", "int64", "bool"})
NEVER = -1  # the round since which a client remembers something, where it does not


class Order(NamedTuple):
    """What a node is asked: to train or to evaluate those of these clients that it hosts."""

    kind: Kind
    run: str
    round: int
    since: Mapping[
        int, int
    ]  # client -> the last round in which its reply counted; its state of then is the one
    state: State
    exam: Exam = Exam(())


class Answer(NamedTuple):
    """What a node says: whom it hosts, a state for each client it was asked for, and what went wrong."""

    hosts: Sequence[int]
    states: Mapping[
        int, Arrays
    ]  # of each client by itself: one that cannot be read does not spoil the others
    failed: Mapping[int, str]
    lost: Sequence[int] = ()  # clients that no longer had the state the server referred to


def to_arrays(state: State) -> Arrays:
    """A state without torch."""
    return {
        part: {n: v.detach().cpu().contiguous().numpy() for n, v in tree.items()}
        for part, tree in state.items()
    }


def to_state(arrays: Arrays) -> State:
    """What `to_arrays` made; nothing but types that belong into a state comes out."""
    return {part: {n: _tensor(a) for n, a in entries.items()} for part, entries in arrays.items()}


def _tensor(array: NDArray[Any]) -> Tensor:
    if str(array.dtype) not in DTYPES:
        raise UnusableError(f"{array.dtype} is no type of an entry")
    return torch.from_numpy(array.copy())


def pack_order(order: Order) -> Parcel:
    """An order as a parcel."""
    exam = order.exam._asdict()
    plain = {
        "kind": order.kind,
        "run": order.run,
        "round": order.round,
        "exam": exam,
        "since": dict(order.since),
    }
    return Parcel(to_arrays(order.state), json.dumps(plain))


def unpack_order(parcel: Parcel) -> Order:
    """What `pack_order` packed."""
    plain = json.loads(parcel.note)
    since = {int(client): int(round) for client, round in plain["since"].items()}
    names = tuple(plain["exam"].pop("names"))
    return Order(
        plain["kind"],
        plain["run"],
        plain["round"],
        since,
        to_state(parcel.arrays),
        Exam(names, **plain["exam"]),
    )


def pack_answer(answer: Answer) -> Parcel:
    """An answer as a parcel; a client's state stands under its number."""
    arrays = {f"{client}.{part}": tree for client, own in answer.states.items() for part, tree in own.items()}
    plain = {"hosts": list(answer.hosts), "states": list(answer.states), "lost": list(answer.lost)}
    return Parcel(arrays, json.dumps({**plain, "failed": dict(answer.failed)}))


def unpack_answer(parcel: Parcel) -> Answer:
    """What `pack_answer` packed, or what can be read of it; nothing in it is to be trusted."""
    try:
        plain = json.loads(parcel.note)
        states: dict[int, Arrays] = {int(client): {} for client in plain["states"]}
        for name, tree in parcel.arrays.items():
            client, _, part = name.partition(".")
            states[int(client)][part] = tree
        failed = {int(client): str(text)[:500] for client, text in plain["failed"].items()}
        return Answer([int(k) for k in plain["hosts"]], states, failed, [int(k) for k in plain["lost"]])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UnusableError(f"the answer cannot be read ({type(error).__name__})") from error


def pack_reply(reply: Reply) -> State:
    """A reply as a state."""
    return wire.pack_replies([reply])


def unpack_reply(state: State) -> Reply:
    """What `pack_reply` packed."""
    try:
        return wire.unpack_replies(state)[0]
    except (KeyError, IndexError, ValueError, RuntimeError) as error:
        raise UnusableError(f"the reply cannot be read ({type(error).__name__}: {error})") from error


def pack_marks(marks: Marks) -> State:
    """A client's marks as a state."""
    return wire.pack_marks([marks])


def unpack_marks(state: State) -> Marks:
    """What `pack_marks` packed."""
    try:
        return wire.unpack_marks(state)[0]
    except (KeyError, IndexError, ValueError, RuntimeError) as error:
        raise UnusableError(f"the marks cannot be read ({type(error).__name__}: {error})") from error
