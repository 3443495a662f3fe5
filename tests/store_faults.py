"""Disks that fail: faults put into the primitives through which the store writes."""

import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedskew.store import disk

PRIMITIVES = [
    "create",
    "reopen",
    "write",
    "truncate",
    "fsync",
    "rename",
    "remove",
    "make_folder",
    "sync_folder",
]


class CrashError(BaseException):
    """The process is gone: nothing that handles errors may see this one."""


class Faults:
    """The primitives with one fault: the call number `at` fails, `forever` also those that follow it."""

    def __init__(self, at: int, error: Callable[[], BaseException], forever: bool = False) -> None:
        self.at, self.error, self.forever = at, error, forever
        self.calls, self.lock = 0, threading.Lock()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in PRIMITIVES:
            patch.setattr(disk, name, self._wrap(name, getattr(disk, name)))

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            with self.lock:
                number, self.calls = self.calls, self.calls + 1
            if number == self.at or (self.forever and number > self.at and name != "remove"):
                if name == "write":
                    os.write(values[0], values[1][: len(values[1]) // 2])
                raise self.error()
            return self.effect(name, real, values)

        return call

    def effect(self, name: str, real: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        return None if name in ("fsync", "sync_folder") else real(*values)


class PowerCut(Faults):
    """A disk that may lose, at the crash, every content not fsynced and every name whose folder was not."""

    def __init__(self, at: int, root: Path, grave: Path, chance: float, seed: int) -> None:
        Faults.__init__(self, at, CrashError)
        self.root, self.grave, self.chance, self.rng = root, grave, chance, random.Random(seed)
        self.contents: dict[int, bytes] = {}
        self.names: dict[Path, dict[str, int]] = {root: {}}

    def effect(self, name: str, real: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        if name == "fsync":
            self.contents[os.fstat(values[0]).st_ino] = Path(f"/proc/self/fd/{values[0]}").read_bytes()
        elif name == "sync_folder":
            self.names[values[0]] = {entry.name: entry.inode() for entry in os.scandir(values[0])}
        else:
            victim = values[-1] if name in ("rename", "remove") else None
            if victim is not None and victim.exists():  # an inode must not be used again
                os.link(victim, self.grave / str(victim.stat().st_ino))
            return real(*values)

    def strike(self) -> None:
        """What is on the disk when the power is back."""
        now = {path: {e.name: e.inode() for e in os.scandir(path)} for path in (self.root, *self._folders())}
        held = {
            p.stat().st_ino: p.read_bytes()
            for p in (*self.root.rglob("*"), *self.grave.iterdir())
            if p.is_file()
        }
        shutil.rmtree(self.root)
        self._rebuild(self.root, now, held)

    def _folders(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_dir()]

    def _rebuild(self, folder: Path, now: dict[Path, dict[str, int]], held: dict[int, bytes]) -> None:
        folder.mkdir()
        synced = self.names.get(folder, {})
        for name in synced.keys() | now[folder].keys():
            inode = (synced if self.rng.random() < self.chance else now[folder]).get(name)
            if inode is None:
                continue
            if folder / name in now:
                self._rebuild(folder / name, now, held)
            else:
                lost = self.rng.random() < self.chance
                (folder / name).write_bytes(self.contents.get(inode, b"") if lost else held[inode])
