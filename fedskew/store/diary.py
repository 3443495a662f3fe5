"""What happened on this machine and when: lines that prove themselves, outside of the checkpoints.

Resumes, fallbacks and timings differ between an interrupted run and an uninterrupted one, whose manifests
must have the same bytes; so no manifest refers to the diary and each line carries its own checksum.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedskew.store import durable
from fedskew.store.journal import finite
from fedskew.store.records import canonical

CHECK = "check"
RESERVED = frozenset({"at", "event", CHECK})
DAMAGED = "damaged line"  # the event that stands for a line that fails its checksum
PROLONGED = "prolonged"  # the event that follows those of the shorter run which this one began with


class Diary:
    """Appends durable events to a file that exists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with durable.explained(path, "read"):
            self._size = path.read_bytes().rfind(b"\n") + 1  # a line cut short by a crash is written over

    def append(self, event: str, detail: Mapping[str, object]) -> None:
        """One event with the time of day."""
        if taken := RESERVED & detail.keys():
            raise ValueError(f"an event sets '{min(taken)}' itself")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        data = _sealed({"at": now, "event": event, **detail})
        durable.append(self.path, self._size, data)
        self._size += len(data)


def read(path: Path) -> list[dict[str, Any]]:
    """All events; in the place of a damaged one stands an event that says so."""
    with durable.explained(path, "read"):
        lines = path.read_bytes().split(b"\n")
    return [_unsealed(text) or {"event": DAMAGED, "line": i} for i, text in enumerate(lines[:-1], 1)]


def damage(path: Path) -> list[str]:
    """One warning for every damaged event."""
    lost = [event["line"] for event in read(path) if event["event"] == DAMAGED]
    return [f"{path}: line {number} is damaged; the run itself is not touched by that." for number in lost]


def _sealed(record: Mapping[str, object]) -> bytes:
    body = {key: finite(value) for key, value in record.items()}
    check = hashlib.sha256(canonical(body)).hexdigest()[:16]
    return json.dumps({**body, CHECK: check}, separators=(",", ":")).encode() + b"\n"


def _unsealed(text: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(text)
        body = {key: value for key, value in record.items() if key != CHECK}
        return body if _sealed(body) == text + b"\n" else None
    except (ValueError, AttributeError, RecursionError):
        return None
