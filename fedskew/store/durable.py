"""Files that appear whole or not at all and survive a power cut; every failure is a DiskError with advice."""

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from fedskew.errors import DiskError
from fedskew.store import disk
from fedskew.store.layout import PART

AT_ONCE = 8  # a file system commits many fsyncs and unlinks together if they arrive together
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def explained(path: Path, action: str, need: int = 0) -> Iterator[None]:
    """Turns an error of the operating system into one that says where, why and what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DiskError(f"{path}: cannot be {action}: {reason}.{_advice(path, error.errno, need)}") from error


def _advice(path: Path, code: int | None, need: int) -> str:
    if code in _NO_SPACE:
        needed = f"at least {need:,} bytes" if need else "some space"
        return (
            f" It needs {needed}, {_free(path):,} bytes are free. Free space or raise the limit, then "
            "`fedskew resume` (`fedskew run` if it had not begun): what was committed is intact."
        )
    if code in _NOT_ALLOWED:
        return " Make the directory writable for you, or choose another one with --out."
    if code in (errno.EEXIST, errno.ENOTDIR):
        return " A file has this name, or one above it: choose another folder with --out."
    if code == errno.EIO:
        return " The disk reports a fault: copy the run directory to another disk and `fedskew resume` there."
    return " See that the directory is still there and mounted, then `fedskew resume`."


def _free(path: Path) -> int:
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free
    return 0


def make_folder(folder: Path) -> None:
    """A directory and those above it, each durable in its parent."""
    if not folder.parent.is_dir():
        make_folder(folder.parent)
    with explained(folder, "made"):
        disk.make_folder(folder)
        disk.sync_folder(folder.parent)


def put(path: Path, data: bytes) -> None:
    """One file under its final name, durable when this returns."""
    put_all(path.parent, [(path.name, data)])


def put_all(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Many files of one directory, durable when this returns; only one of them is in memory at a time."""
    sizes: dict[Path, int] = {}
    try:
        for name, data in files:
            sizes[folder / name] = len(data)
            _fill(folder / name, data)
        _together(lambda path: _sync(path, sizes[path]), list(sizes))
        for path, size in sizes.items():
            with explained(path, "written", size):
                disk.rename(_part(path), path)
    except DiskError:
        # What a full disk took must not keep it full.
        for path in sizes:
            with suppress(OSError):
                disk.remove(_part(path))
        raise
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Makes the names in a directory durable."""
    with explained(folder, "written"):
        disk.sync_folder(folder)


def _part(path: Path) -> Path:
    return path.with_name(path.name + PART)


def _fill(path: Path, data: bytes) -> None:
    with explained(path, "written", len(data)):
        descriptor = disk.create(_part(path))
        try:
            disk.write(descriptor, data)
        finally:
            os.close(descriptor)


def _sync(path: Path, size: int) -> None:
    with explained(path, "written", size):
        descriptor = disk.reopen(_part(path))
        try:
            disk.fsync(descriptor)
        finally:
            os.close(descriptor)


def append(path: Path, size: int, data: bytes) -> None:
    """Adds to a file of `size` good bytes; the rest of an append that failed half-way is dropped first."""
    with explained(path, "written", len(data)):
        descriptor = disk.reopen(path)
        try:
            _cut(path, descriptor, size)
            os.lseek(descriptor, size, os.SEEK_SET)
            disk.write(descriptor, data)
            disk.fsync(descriptor)
        finally:
            os.close(descriptor)


def cut(path: Path, size: int) -> int:
    """Shortens a file durably; returns how many bytes were dropped."""
    with explained(path, "shortened"):
        descriptor = disk.reopen(path)
        try:
            dropped = _cut(path, descriptor, size)
            if dropped:
                disk.fsync(descriptor)
            return dropped
        finally:
            os.close(descriptor)


def _cut(path: Path, descriptor: int, size: int) -> int:
    surplus = os.fstat(descriptor).st_size - size
    if surplus < 0:
        raise DiskError(f"{path}: lost {-surplus:,} bytes while the run was going on. Resume the run.")
    if surplus:
        disk.truncate(descriptor, size)
    return surplus


def remove_all(paths: Iterable[Path]) -> None:
    """Unlinks files that nothing refers to."""

    def remove(path: Path) -> None:
        with explained(path, "removed"):
            disk.remove(path)

    _together(remove, list(paths))


def _together(action: Callable[[Path], None], paths: Sequence[Path]) -> None:
    with ThreadPoolExecutor(min(AT_ONCE, len(paths)) or 1) as pool:
        list(pool.map(action, paths))
