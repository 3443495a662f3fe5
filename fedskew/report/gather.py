"""What a report is made of: runs as they were read. Nothing here imports torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedskew import failures, naming
from fedskew.config import Config, parse
from fedskew.results import Result
from fedskew.store import layout
from fedskew.store.reader import RunReader

CENSUS = naming.CENSUS
PARTITION = "partition.json"


class Census(NamedTuple):
    """The classes' names, and how many examples of each every client has."""

    classes: tuple[str, ...]
    train: tuple[tuple[int, ...], ...]  # [K, C]
    test: tuple[tuple[int, ...], ...]
    novel: tuple[int, ...]  # clients that never train
    clients: tuple[str, ...] = ()  # their names; empty where they have only numbers


class Seen(NamedTuple):
    """One run, as far as it has come."""

    place: Path
    config: Config
    environment: Mapping[str, Any]
    census: Census | None  # None in a run that did not write it down
    records: tuple[dict[str, Any], ...]
    clients: tuple[dict[str, Any], ...]
    events: tuple[dict[str, Any], ...]
    hashes: Mapping[str, str]  # SHA-256 by file

    @property
    def seed(self) -> int:
        """The seed of this run."""
        return self.config.seeds[0]

    @property
    def rounds(self) -> int:
        """How many rounds it has finished."""
        return len(self.records)

    @property
    def complete(self) -> bool:
        """Whether it has come to its last round."""
        return self.rounds >= self.config.train.rounds

    @property
    def diverged(self) -> str | None:
        """Why training broke off, if it diverged and was not taken up again since."""
        return self._ended_by("diverged")

    @property
    def failed(self) -> str | None:
        """Why it ended before its time for another reason, if it was not taken up again since."""
        return self._ended_by("failed")

    def label(self, client: int) -> str:
        """What a client is called."""
        return naming.label(self.census.clients if self.census else (), client)

    def _ended_by(self, event: str) -> str | None:
        turns = [e for e in self.events if e["event"] in (*failures.ENDED, *failures.GOES_ON)]
        return str(turns[-1].get("why", "")) if turns and turns[-1]["event"] == event else None

    def result(self, label: str) -> Result:
        """Its records under a label; a diverged run has no result, so that no mean hides it."""
        return Result(self.config.name, label, self.seed, () if self.diverged is not None else self.records)


def read(place: Path) -> Seen:
    """Everything a report says of one run."""
    reader = RunReader(place)
    return Seen(
        place,
        parse(reader.config(), str(place / layout.CONFIG)),
        reader.environment(),
        _census(reader),
        tuple(reader.metrics()),
        tuple(reader.clients()),
        tuple(reader.events()),
        _hashes(reader),
    )


def _census(reader: RunReader) -> Census | None:
    content = _optional(reader, CENSUS)
    if content is None:
        return None
    found = json.loads(content)
    counts = _rows(found["train"]), _rows(found["test"])
    return Census(tuple(found["classes"]), *counts, tuple(found["novel"]), naming.recorded(reader))


def _rows(table: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in table)


def _optional(reader: RunReader, name: str) -> bytes | None:
    try:
        return reader.file(name)
    except KeyError:
        return None


def _hashes(reader: RunReader) -> dict[str, str]:
    files = {name: _optional(reader, name) for name in (layout.CONFIG, PARTITION, CENSUS, layout.ENVIRONMENT)}
    return {name: _sha256(data) for name, data in files.items() if data is not None}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def flat(table: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """A nested table with dotted keys; an empty table (a part with its defaults) is a value."""
    out: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            out |= flat(value, f"{start}{key}.")
        else:
            out[start + key] = value
    return out


def settings(config: Config) -> dict[str, Any]:
    """Every setting that has a value, by its dotted key."""
    return {key: value for key, value in flat(config.model_dump(mode="json")).items() if value is not None}


def varying(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """The keys whose values are not the same in all tables, in order of first occurrence."""
    all_tables = list(tables)
    keys = dict.fromkeys(key for table in all_tables for key in table)
    return [key for key in keys if len({repr(table.get(key)) for table in all_tables}) > 1]
