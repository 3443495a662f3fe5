"""Partitions on disk: one JSON file that says how it was made, refused once a byte of it has changed."""

import hashlib
import json
import os
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedskew import __version__
from fedskew.data.partition import Partition, Scheme
from fedskew.data.partition.dealing import Indices
from fedskew.errors import DataError
from fedskew.files import written

Setting = bool | int | float | str | None


class Artefact(NamedTuple):
    """A partition and how it was made."""

    partition: Partition
    scheme: str
    settings: dict[str, Setting]
    seed: int
    samples: int  # size of the pool
    labels: str  # SHA-256 of its labels
    version: str  # of the library that made it
    sha256: str  # of all the above


def save(path: Path, partition: Partition, scheme: Scheme, seed: int, labels: Indices) -> str:
    """Writes a partition of the pool that has these labels, whole or not at all; returns its SHA-256."""
    try:
        raw, digest = pack(partition, type(scheme).__name__.lower(), vars(scheme), seed, labels)
    except ValueError as error:
        raise DataError(f"{path}: not written, because {error}") from error
    written(path, lambda place: _write(place, raw))
    return digest


def pack(
    partition: Partition, scheme: str, settings: Mapping[str, Setting], seed: int, labels: Indices
) -> tuple[bytes, str]:
    """The bytes of a saved partition and their SHA-256."""
    _check(partition, len(labels))
    return _encode(
        {
            "format": "fedskew partition 1",
            "scheme": scheme,
            "settings": {name: np.asarray(value).item() for name, value in settings.items()},
            "seed": int(seed),
            "samples": len(labels),
            "labels": fingerprint(labels),
            "version": __version__,
            "train": [part.tolist() for part in partition.train],
            "test": [part.tolist() for part in partition.test],
            "novel": list(partition.novel),
        }
    )


def load(path: Path, labels: Indices | None = None) -> Artefact:
    """Reads a partition back, and given the labels of the pool refuses one that was made for another."""
    try:
        raw = path.read_bytes()
        document = json.loads(raw)
        expected, digest = _encode(document["content"])
        if raw != expected:
            raise ValueError("its content does not agree with its SHA-256")
        artefact = _decode(document["content"], digest)
        if labels is not None and artefact.labels != fingerprint(labels):
            raise ValueError(
                f"it divides another pool of {artefact.samples} samples, not these {len(labels)}"
            )
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{path}: no partition to use: {error}. Put the file, and the data it was made for, back."
        ) from error
    return artefact


def fingerprint(labels: Indices) -> str:
    """The SHA-256 of the labels of a pool, the same for every integer type."""
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()


def _encode(content: object) -> tuple[bytes, str]:
    digest = hashlib.sha256(_canonical(content)).hexdigest()
    return _canonical({"content": content, "sha256": digest}) + b"\n", digest


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _decode(content: object, digest: str) -> Artefact:
    match content:
        case {
            "format": "fedskew partition 1",
            "scheme": str(scheme),
            "settings": dict(settings),
            "seed": int(seed),
            "samples": int(samples),
            "labels": str(labels),
            "version": str(version),
            "train": [*train],
            "test": [*test],
            "novel": [*novel],
        }:
            partition = Partition(_rows(train), _rows(test), tuple(_rows([novel])[0].tolist()))
            _check(partition, samples)
            return Artefact(partition, scheme, settings, seed, samples, labels, version, digest)
        case _:
            raise ValueError("it lacks an entry, or is of another format or version")


def _rows(rows: list[list[int]]) -> tuple[Indices, ...]:
    if {type(position) for position in chain.from_iterable(rows)} - {int}:
        raise ValueError("a position in it is no whole number")
    return tuple(np.array(row, dtype=np.int64) for row in rows)


def _check(partition: Partition, samples: int) -> None:
    clients = len(partition.train)
    if clients == 0 or clients != len(partition.test) or min(map(len, partition.train)) == 0:
        raise ValueError("a client lacks its training samples or its (perhaps empty) list of test samples")
    if (
        len(set(partition.novel) & set(range(clients))) != len(partition.novel)
        or len(partition.novel) == clients
    ):
        raise ValueError(f"the novel clients {partition.novel} are not some of the {clients}")
    used = np.concatenate([*partition.train, *partition.test])
    if used.min() < 0 or used.max() >= samples:
        raise ValueError(f"a position is out of range: {used.min()} to {used.max()} for {samples} samples")
    if (times := np.bincount(used)).max() > 1:
        raise ValueError(f"position {times.argmax()} is owned {times.max()} times")


def _write(place: Path, raw: bytes) -> None:
    with place.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
