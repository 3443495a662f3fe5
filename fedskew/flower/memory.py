"""What a client remembers, on the client's own disk: one folder per run and client, whole or not at all.

The server says after which round it last counted the client, and the state of then is taken: so a reply that
was lost, late or refused has not happened, and a round that is asked again gives the same answer again.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fedskew.errors import ConfigError, DiskError, LockedError
from fedskew.store import codec, durable
from fedskew.store.layout import LOCK
from fedskew.store.lock import Lock
from fedskew.tree import State

PATIENCE = 60.0  # seconds to wait for a process of the same client that is about to end
_STATE = re.compile(r"round-(\d{8})-([0-9a-f]{64})\.safetensors")
_REPLY = "reply-{}.safetensors"
_RUN = re.compile(r"[0-9a-f]{32}")


class _Held(NamedTuple):
    round: int
    path: Path
    sha256: str


class Memory:
    """The states of one client in one run, held by one process at a time."""

    def __init__(self, root: Path, run: str, client: int) -> None:
        if not _RUN.fullmatch(run):
            raise ConfigError(
                f"'{run}' is no identifier of a run."
            )  # it comes from the network and becomes a path
        self.folder = root / run / str(client)
        durable.make_folder(self.folder)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else writes meanwhile; waits for a process that was left behind by a restart."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                lock = Lock(self.folder / LOCK)
                break
            except LockedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        try:
            yield
        finally:
            lock.release()

    def at(self, round: int) -> State | None:
        """The state after a round; None if there is no whole one."""
        found = [held for held in self._states() if held.round == round]
        return self._read(found[0].path, found[0].sha256) if found else None

    def put(self, round: int, state: State, since: int) -> None:
        """Adds the state after a round; of those before, what the server may still refer to stays."""
        data = codec.encode(state)
        name = f"round-{round:08d}-{hashlib.sha256(data).hexdigest()}.safetensors"
        older = [held for held in self._states() if held.round >= round]
        durable.put(self.folder / name, data)
        earlier = sorted(held.round for held in self._states() if held.round < since)
        wanted = {round, since, *earlier[-1:]}
        stale = [held for held in self._states() if held.round not in wanted] + older
        durable.remove_all(held.path for held in stale if held.path.name != name)

    def reply(self, order: str) -> State | None:
        """What was answered to this very order before."""
        path = self.folder / _REPLY.format(order)
        try:
            return codec.decode(path.read_bytes(), path) if path.exists() else None
        except DiskError:
            return None

    def put_reply(self, order: str, reply: State) -> None:
        """Remembers the last answer, so that a task that is sent twice is not done twice."""
        name = _REPLY.format(order)
        durable.put(self.folder / name, codec.encode(reply))
        durable.remove_all(path for path in self.folder.glob(_REPLY.format("*")) if path.name != name)

    def _states(self) -> list[_Held]:
        found = ((_STATE.fullmatch(path.name), path) for path in sorted(self.folder.iterdir()))
        return [_Held(int(match[1]), path, match[2]) for match, path in found if match]

    def _read(self, path: Path, sha256: str) -> State | None:
        with durable.explained(path, "read"):
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            return None
        return codec.decode(data, path)


def digest(state: State, since: int) -> str:
    """A name for an order: the same message on top of the same memory."""
    return hashlib.sha256(codec.encode(state) + str(since).encode()).hexdigest()
