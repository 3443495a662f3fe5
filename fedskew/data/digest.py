"""Hashes of files, computed once: a file whose size and time have not changed keeps its hash."""

import gzip
import hashlib
import json
import zlib
from pathlib import Path
from typing import IO, Literal

from fedskew.data.atomic import write_text
from fedskew.errors import DataError

How = Literal["sha256", "md5", "content"]  # content: the SHA-256 of what a .gz holds
CHUNK = 1 << 20
LARGEST_CONTENT = 1 << 28  # a .gz of ours holds 47 MB; more is no dataset but a bomb


def digest(path: Path, how: How, memo: Path) -> str:
    """The hash of `path`, looked up in the JSON file `memo` if the file is unchanged."""
    if path.is_dir():
        return fingerprint(path)
    stat = path.stat()
    known = _read(memo)
    key = f"{how} {stat.st_size} {stat.st_mtime_ns} {path.resolve()}"
    if key not in known:
        known[key] = _compute(path, how)
        write_text(memo, json.dumps(known, indent=0))
    return known[key]


def fingerprint(folder: Path) -> str:
    """A hash of the names, sizes and times of all files of a folder, none of which is read."""
    state = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        stat = path.stat()
        state.update(f"{path.relative_to(folder)}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return state.hexdigest()


def _read(memo: Path) -> dict[str, str]:
    try:
        known = json.loads(memo.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _compute(path: Path, how: How) -> str:
    try:
        if how == "content":
            with gzip.open(path) as stream:
                return _hash(stream, "sha256", LARGEST_CONTENT, path)
        with path.open("rb") as plain:
            return _hash(plain, how, None, path)
    except PermissionError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Make it readable for you.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}). Delete it and get it again.") from error


def _hash(stream: IO[bytes] | gzip.GzipFile, algorithm: str, limit: int | None, path: Path) -> str:
    state, size = hashlib.new(algorithm, usedforsecurity=algorithm != "md5"), 0
    while chunk := stream.read(CHUNK):
        size += len(chunk)
        if limit is not None and size > limit:
            raise DataError(f"{path}: holds more than {limit:,} bytes, so it is not what its name says.")
        state.update(chunk)
    return state.hexdigest()
