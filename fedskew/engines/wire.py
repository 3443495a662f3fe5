"""What moves between processes, as states: messages, replies and marks, through the store's codec."""

from collections.abc import Sequence
from pathlib import Path

import torch

from fedskew.examine import Marks
from fedskew.store import codec
from fedskew.tree import State, Tree
from fedskew.values import Reply

_NUMBERS = tuple(Reply._fields[2:])


def write(path: Path, state: State) -> None:
    """Puts a state into a file."""
    path.write_bytes(codec.encode(state))


def read(path: Path) -> State:
    """The state in a file."""
    return codec.decode(path.read_bytes(), path)


def pack_replies(replies: Sequence[Reply]) -> State:
    """Replies of several clients as one state."""
    state: State = {}
    for index, reply in enumerate(replies):
        state[f"{index}.shared"] = reply.shared
        state[f"{index}.numbers"] = {name: getattr(reply, name) for name in _NUMBERS}
        state |= {f"{index}.extra.{part}": entries for part, entries in reply.extra.items()}
    return state


def unpack_replies(state: State) -> list[Reply]:
    """What `pack_replies` packed."""
    extras: dict[str, State] = {}
    for name, entries in state.items():
        index, kind, *part = name.split(".", 2)
        if kind == "extra":
            extras.setdefault(index, {})[part[0]] = entries
    count = sum(name.endswith(".numbers") for name in state)
    return [
        Reply(state[f"{i}.shared"], extras.get(str(i), {}), *(state[f"{i}.numbers"][n] for n in _NUMBERS))
        for i in range(count)
    ]


def pack_marks(marks: Sequence[Marks]) -> State:
    """Marks of several clients as one state."""
    return {str(index): _entries(mark) for index, mark in enumerate(marks)}


def _entries(mark: Marks) -> Tree:
    tensors = {name: value for name, value in mark._asdict().items() if isinstance(value, torch.Tensor)}
    return {**tensors, "seen": torch.tensor(mark.seen)}


def unpack_marks(state: State) -> list[Marks]:
    """What `pack_marks` packed."""
    return [
        Marks(mark["home"], mark.get("whole"), mark.get("ballot"), mark["told"], bool(mark["seen"]))
        for mark in state.values()
    ]
