"""What clients remember, one file each: every process of the machine can read it, none can lose it."""

import os
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from fedskew.engines import wire
from fedskew.tree import State

_IN_MEMORY = Path("/dev/shm")  # a file system that is memory, where there is one


class Shelf(MutableMapping[int, State]):
    """Client -> state; files in the first folder, which is memory, up to a limit, in the second beyond it."""

    def __init__(self, limit: int | None = None) -> None:
        usable = os.access(_IN_MEMORY, os.W_OK)
        fast = tempfile.mkdtemp(prefix="fedskew-", dir=_IN_MEMORY if usable else None)
        self.folders = Path(fast), Path(tempfile.mkdtemp(prefix="fedskew-"))
        self._limit = shutil.disk_usage(fast).free // 2 if limit is None else limit
        self._files: dict[int, Path] = {}
        self._sizes: dict[int, int] = {}
        self._used = 0

    def room(self, ahead: int = 0) -> Path:
        """The folder into which the next file goes, after so many bytes that are not there yet."""
        return self.folders[self._used + ahead >= self._limit]

    def put(self, client: int, written: Path) -> None:
        """Takes in a file that holds the client's new state; until then the old one stands."""
        self._drop(client)
        path = written.with_name(f"kept-{client}")
        written.replace(path)
        self._files[client] = path
        self._sizes[client] = path.stat().st_size if path.parent == self.folders[0] else 0
        self._used += self._sizes[client]

    def path(self, client: int) -> Path | None:
        """Where the client's state is, if it has one."""
        return self._files.get(client)

    def close(self) -> None:
        """Removes the files."""
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _drop(self, client: int) -> None:
        old = self._files.pop(client, None)
        if old is not None:
            old.unlink()
            self._used -= self._sizes.pop(client)

    def __getitem__(self, client: int) -> State:
        return wire.read(self._files[client])

    def __setitem__(self, client: int, state: State) -> None:
        written = self.room() / f"new-{client}"
        wire.write(written, state)
        self.put(client, written)

    def __delitem__(self, client: int) -> None:
        if client not in self._files:
            raise KeyError(client)
        self._drop(client)

    def __contains__(self, client: object) -> bool:
        return client in self._files

    def __iter__(self) -> Iterator[int]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)
