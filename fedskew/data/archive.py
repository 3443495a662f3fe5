"""The files of a folder, a .tar, a .tar.gz or a .zip, one by one in memory; nothing is ever extracted."""

import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from fedskew.data.safe import check_member, read_bytes
from fedskew.errors import DataError

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
LARGEST_TOTAL = 1 << 34  # bytes of all members together
COMPLAINTS = (OSError, EOFError, ValueError, RuntimeError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class Entry(NamedTuple):
    """One file of a tree: its path below the top, and its bytes."""

    name: str
    data: bytes


def entries(path: Path, wanted: Callable[[str], bool], limit: int) -> Iterator[Entry]:
    """The wanted files of a folder or archive, at most `limit` bytes each; nothing may lead out of it."""
    if path.is_dir():
        yield from _of_folder(path, wanted, limit)
    elif path.suffix == ".zip":
        yield from _guarded(_of_zip(path, wanted, limit), path)
    else:
        yield from _guarded(_of_tar(path, wanted, limit), path)


def _guarded(found: Iterator[Entry], path: Path) -> Iterator[Entry]:
    """Turns every complaint of the archive modules into one about the file."""
    try:
        yield from found
    except COMPLAINTS as error:
        raise DataError(f"{path}: is no whole archive ({error}). Get it again.") from error


def _of_folder(path: Path, wanted: Callable[[str], bool], limit: int) -> Iterator[Entry]:
    top = path.resolve()
    for folder, below, files in os.walk(top):
        below.sort()
        if links := [name for name in below if Path(folder, name).is_symlink()]:
            raise DataError(f"{Path(folder, links[0])}: is a link, which is not followed. Copy the folder.")
        for file in sorted(files):
            place = Path(folder, file)
            name = place.relative_to(top).as_posix()
            if not wanted(name):
                continue
            if not place.resolve().is_relative_to(top) or not place.is_file():
                raise DataError(f"{place}: is a link out of {top} or no file. Copy the file into the folder.")
            yield Entry(name, read_bytes(place, limit))


def _of_zip(path: Path, wanted: Callable[[str], bool], limit: int) -> Iterator[Entry]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        for info in members:
            _check_name(info.filename, path)
            if (info.external_attr >> 16) & 0o170000 == 0o120000:
                raise DataError(f"{path}: {info.filename} is a link, which no dataset of ours has.")
        if sum(info.file_size for info in members) > LARGEST_TOTAL:
            raise DataError(f"{path}: unpacks to more than {LARGEST_TOTAL:,} bytes, so it was not read.")
        for info in sorted(members, key=lambda info: info.filename):
            name = PurePosixPath(info.filename).as_posix()
            if not info.is_dir() and wanted(name):
                check_member(info, path, limit)
                with archive.open(info) as stream:  # a size must be given: the headers may lie
                    yield Entry(name, stream.read(info.file_size))


def _of_tar(path: Path, wanted: Callable[[str], bool], limit: int) -> Iterator[Entry]:
    packed = path.suffix in (".gz", ".tgz")
    with gzip.open(path) if packed else path.open("rb") as stream:
        bounded = _Bounded(stream, limit)
        with tarfile.open(fileobj=bounded, mode="r:") as archive:
            total = 0
            for member in archive:
                _check_name(member.name, path)
                if not (member.isreg() or member.isdir()):
                    raise DataError(
                        f"{path}: {member.name} is a link or device, which no dataset of ours has."
                    )
                total += member.size
                if member.size > limit or total > LARGEST_TOTAL:
                    raise DataError(f"{path}: {member.name} has {member.size:,} bytes, so it was not read.")
                name = PurePosixPath(member.name).as_posix()  # some archives say ./name
                if member.isreg() and wanted(name):
                    yield Entry(name, _member(archive, member))
                archive.members = []  # type: ignore[attr-defined]  # a list of a hundred thousand is not needed


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    return stream.read() if stream else b""


def _check_name(name: str, path: Path) -> None:
    if name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts or ":" in name:
        raise DataError(f"{path}: the member name {name!r} leads out of the archive, so nothing was read.")


class _Bounded(io.RawIOBase):
    """A stream that refuses to read more than `limit` bytes at once: a tar header may claim any length."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, limit: int) -> None:
        self.stream, self.limit = stream, limit + tarfile.RECORDSIZE

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self.limit:
            raise ValueError(f"a header asks for {size:,} bytes")
        return self.stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.stream.seek(offset, whence)

    def tell(self) -> int:
        return self.stream.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
