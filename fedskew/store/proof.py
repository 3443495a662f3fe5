"""Reading with proof: sizes are compared before anything is allocated, hashes before anything is used."""

import hashlib
from pathlib import Path
from typing import Protocol

from fedskew.errors import DiskError
from fedskew.store.durable import explained
from fedskew.store.records import Ref

CHUNK = 1 << 20
LARGEST_SEALED = 1 << 20  # bytes of a manifest or an opening


class Hash(Protocol):
    """A hash that can go on."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def small(path: Path) -> bytes:
    """The bytes of a sealed file, which is never large."""
    with explained(path, "read"), path.open("rb") as file:
        data = file.read(LARGEST_SEALED + 1)
    if len(data) > LARGEST_SEALED:
        raise DiskError(f"{path}: is damaged (it has more than {LARGEST_SEALED:,} bytes).")
    return data


def whole(path: Path, ref: Ref) -> bytes:
    """The bytes of a file that is exactly what `ref` says."""
    _check_size(path, ref)
    with explained(path, "read"), path.open("rb") as file:
        data = file.read(ref.size + 1)
    if Ref.of(data) != ref:
        raise _changed(path)
    return data


def check(path: Path, ref: Ref) -> None:
    """Refuses a file that is not exactly what `ref` says, without holding it in memory."""
    _check_size(path, ref)
    prefix(path, ref)


def prefix(path: Path, ref: Ref) -> Hash:
    """The running hash of the first bytes of a file, if they are what `ref` says."""
    state, left = hashlib.sha256(), ref.size
    with explained(path, "read"), path.open("rb") as file:
        while left and (data := file.read(min(left, CHUNK))):
            state.update(data)
            left -= len(data)
    if left or state.hexdigest() != ref.sha256:
        raise _changed(path)
    return state


def _check_size(path: Path, ref: Ref) -> None:
    with explained(path, "read"):
        size = path.stat().st_size
    if size != ref.size:
        raise DiskError(f"{path}: is damaged (it has {size:,} bytes instead of {ref.size:,}).")


def _changed(path: Path) -> DiskError:
    return DiskError(f"{path}: is damaged (its content has changed since it was committed).")
