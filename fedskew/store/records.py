"""What the JSON files of a run say, and how they prove that they say it unchanged."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from fedskew.errors import DiskError
from fedskew.store.layout import PLAIN

FORMAT: Final = 1
LARGEST = 1 << 36  # bytes of one file; more is no state of a run
_MALFORMED = (ValueError, TypeError, KeyError, RecursionError, ValidationError)

Hex = Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{64}\z")]


class Ref(NamedTuple):
    """The content of a file, or of its first `size` bytes."""

    sha256: Hex
    size: Annotated[int, Field(ge=0, le=LARGEST)]

    @classmethod
    def of(cls, data: bytes) -> "Ref":
        """The reference to these bytes."""
        return cls(hashlib.sha256(data).hexdigest(), len(data))


NOTHING = Ref.of(b"")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = FORMAT


class Opening(_Record):
    """The files that a run began with and that never change."""

    files: dict[Annotated[str, StringConstraints(pattern=rf"\A{PLAIN}\z")], Ref]


class Manifest(_Record):
    """A committed round; the clients' own index keeps it small for any population."""

    run: Hex  # of the opening, so that no other run's manifest is taken for this one's
    round: Annotated[int, Field(ge=0, lt=10**8)]
    server: Ref
    index: Ref  # client -> Ref, see `encode_index`
    metrics: Ref  # the first bytes of metrics.jsonl
    clients: Ref  # the first bytes of clients.jsonl


Record = TypeVar("Record", Opening, Manifest)


def canonical(value: object) -> bytes:
    """The one way in which a value is written as JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def seal(record: Opening | Manifest) -> bytes:
    """The record with its own SHA-256."""
    body = record.model_dump(mode="json")
    return _sealed(body)


def _sealed(body: object) -> bytes:
    digest = hashlib.sha256(canonical(body)).hexdigest()
    return (json.dumps({"sha256": digest, "body": body}, indent=1, sort_keys=True) + "\n").encode()


def unseal(data: bytes, kind: type[Record], path: Path) -> Record:
    """The record, if not one byte of the file has changed."""
    try:
        body: Any = json.loads(data)["body"]
        if _sealed(body) == data:
            if (written := body["format"]) != FORMAT:
                raise DiskError(f"{path}: has format {written}; this version of fedskew reads {FORMAT} only.")
            return kind.model_validate(body)
    except _MALFORMED:
        pass
    raise DiskError(f"{path}: is damaged (it does not match its own checksum).")


_INDEX: TypeAdapter[dict[int, Ref]] = TypeAdapter(dict[Annotated[int, Field(ge=0)], Ref])


def encode_index(clients: Mapping[int, Ref]) -> bytes:
    """The file that says where each client's state is, in the order of their numbers."""
    return json.dumps(dict(sorted(clients.items())), separators=(",\n", ":")).encode()


def decode_index(data: bytes, path: Path) -> dict[int, Ref]:
    """The index of a file that matched its reference."""
    try:
        return _INDEX.validate_json(data)
    except ValidationError as error:
        raise DiskError(f"{path}: is no index of client states.") from error
