"""Every call that changes a run directory, one step each; tests inject their faults here."""

import os
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW


def create(path: Path) -> int:
    """A descriptor of a new, or emptied, file."""
    return os.open(path, _FLAGS | os.O_CREAT | os.O_TRUNC, 0o666)


def reopen(path: Path) -> int:
    """A descriptor of a file that must exist."""
    return os.open(path, _FLAGS)


def write(descriptor: int, data: bytes) -> None:
    """All of `data`; a nearly full disk takes some of it before it fails."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def truncate(descriptor: int, size: int) -> None:
    """Cuts an open file."""
    os.ftruncate(descriptor, size)


def fsync(descriptor: int) -> None:
    """The file's content survives a power cut."""
    os.fsync(descriptor)


def rename(old: Path, new: Path) -> None:
    """Puts `old` in the place of `new` in one step."""
    os.replace(old, new)


def remove(path: Path) -> None:
    """Unlinks a file."""
    path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """One new directory, or the one that is there."""
    path.mkdir(exist_ok=True)


def sync_folder(path: Path) -> None:
    """The names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
