"""A file of JSON lines whose every committed prefix has a known hash."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedskew.errors import DiskError
from fedskew.store import durable, proof
from fedskew.store.records import NOTHING, Ref


class Journal:
    """Appends durable lines; `mark` is what a manifest remembers, `rewind` goes back to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash: proof.Hash = hashlib.sha256()
        self._size = 0

    def append(self, records: Iterable[Mapping[str, object]]) -> None:
        """One line per record, all in one durable write."""
        data = b"".join(line(record) for record in records)
        if data:
            durable.append(self.path, self._size, data)
            self._hash.update(data)
            self._size += len(data)

    def mark(self) -> Ref:
        """Everything up to here."""
        return Ref(self._hash.hexdigest(), self._size)

    def rewind(self, mark: Ref = NOTHING) -> int:
        """Drops what came after `mark`; returns how many bytes that were."""
        state = proof.prefix(self.path, mark)
        dropped = durable.cut(self.path, mark.size)
        self._hash, self._size = state, mark.size
        return dropped


def line(record: Mapping[str, object]) -> bytes:
    """A record as one line of valid JSON; a number that is not finite is written as null."""
    return json.dumps(finite(record), separators=(",", ":"), allow_nan=False).encode() + b"\n"


def finite(value: object) -> object:
    """The same value with None for every NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value


def read(path: Path, mark: Ref, live: bool) -> list[dict[str, Any]]:
    """The committed records; with `live` also the whole lines after them, which no checkpoint proves yet."""
    proof.prefix(path, mark)
    with durable.explained(path, "read"):
        data = path.read_bytes()
    end = data.rfind(b"\n") + 1 if live else mark.size
    try:
        return [json.loads(text) for text in data[:end].split(b"\n")[:-1]]
    except ValueError as error:
        raise DiskError(
            f"{path}: is damaged (a line is no JSON). Resume the run to repair its end."
        ) from error
