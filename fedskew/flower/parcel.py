"""What travels between server and clients, before and after it is tensors: arrays by part and name, and a text.

Nothing here imports torch: the process that Flower starts for every task only passes parcels on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

Arrays = dict[str, dict[str, NDArray[Any]]]
Settings = Mapping[str, Any]  # of a SuperNode or a run


class Parcel(NamedTuple):
    """Everything a message holds."""

    arrays: Arrays
    note: str


class UnusableError(Exception):
    """Something received that does not hold what it should; its sender is to blame."""


Handler = Callable[[Parcel, Settings], Parcel]  # what a client does with a parcel


class Delivery(NamedTuple):
    """What came back for a letter: a parcel, or why there is none."""

    letter: str
    parcel: Parcel | None
    error: str = ""


class Post(Protocol):
    """Carries parcels to nodes and back."""

    def nodes(self) -> Collection[int]:
        """The nodes that are connected."""

    def send(self, node: int, kind: str, parcel: Parcel, seconds: float) -> str:
        """The number of a letter that is worth so many seconds; empty if it could not be sent."""

    def collect(self, letters: Collection[str]) -> Sequence[Delivery]:
        """What has come back since for these letters."""


def to_bytes(parcel: Parcel) -> bytes:
    """A parcel as one file."""
    names = [[part, list(entries)] for part, entries in parcel.arrays.items()]
    flat = {f"{i}/{n}": a for i, entries in enumerate(parcel.arrays.values()) for n, a in entries.items()}
    return safetensors.numpy.save(flat, {"letter": json.dumps([names, parcel.note])})


def from_bytes(data: bytes) -> Parcel:
    """What `to_bytes` wrote."""
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        names, note = json.loads(header["__metadata__"]["letter"])
        flat = safetensors.numpy.load(data)
        return Parcel(
            {part: {n: flat[f"{i}/{n}"] for n in entries} for i, (part, entries) in enumerate(names)}, note
        )
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnusableError(f"a parcel cannot be read ({type(error).__name__})") from error
