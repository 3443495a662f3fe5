"""Where data files are looked for, and what makes a file the right one."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fedskew.data import fetch
from fedskew.data.digest import How, digest
from fedskew.errors import DataError

Progress = Callable[[str, int, int], None]  # what is done, how much of it, out of how much


def silent(what: str, done: int, total: int) -> None:
    """Shows nothing: the library never prints, the command line passes a progress bar."""


def user_cache() -> Path:
    """The user's cache folder on this system, where downloads and prepared data live."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "fedskew"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "fedskew" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fedskew"
    return Path.home() / ".cache" / "fedskew"


class File(NamedTuple):
    """A published file: its name, where it is published, and what proves it: its size and any one hash."""

    name: str
    url: str = ""
    sha256: str = ""
    md5: str = ""
    size: int = 0
    content: str = ""  # SHA-256 of the decompressed bytes: a repacked .gz is as good


@dataclass(frozen=True)
class Folder:
    """The places data may be in, and whether it may be fetched and must match its pinned hashes."""

    data_dir: Path | None = None
    cache: Path = field(default_factory=user_cache)
    download: bool = field(default_factory=lambda: os.environ.get("FEDSKEW_OFFLINE", "") in ("", "0"))
    verify: bool = True  # off only for files one has made oneself
    progress: Progress = silent

    def roots(self) -> tuple[Path, ...]:
        """The folders that are searched, first to last."""
        shared = os.environ.get("FEDSKEW_DATA")
        given = [self.data_dir, Path(shared) if shared else None, self.cache / "raw"]
        return tuple(dict.fromkeys(root.expanduser() for root in given if root is not None))

    def under(self, below: Sequence[str]) -> tuple[Path, ...]:
        """The subfolders of the roots that are named in `below`."""
        return tuple(root / name for root in self.roots() for name in below)

    def places(self, below: Sequence[str], also: Iterable[Path] = ()) -> tuple[Path, ...]:
        """Every folder that may hold a dataset: subfolders named in `below`, the roots, and `also`."""
        return (*self.under(below), *self.roots(), *also)

    def locate(self, path: str) -> Path:
        """Your own file or folder: `path` as given, else below one of the roots."""
        given = Path(path).expanduser()
        tried = [given, *(root / given for root in self.roots())]
        for place in tried:
            if place.exists():
                return place
        raise DataError(f"{path}: not found, neither as given nor below {', '.join(map(str, self.roots()))}.")

    def digest(self, path: Path, how: How) -> str:
        """The hash of `path`, remembered in the cache."""
        return digest(path, how, self.cache / "digests.json")

    def trusts(self, path: Path, file: File) -> bool:
        """Whether `path` has the size and one of the hashes pinned for `file`."""
        if not self.verify:
            return True
        if file.size and path.stat().st_size != file.size:
            return False
        pins: list[tuple[How, str]] = [("sha256", file.sha256), ("md5", file.md5), ("content", file.content)]
        pinned = [(how, pin) for how, pin in pins if pin]
        return not pinned or any(self.digest(path, how) == pin for how, pin in pinned)

    def find(self, file: File, below: Sequence[str], also: Iterable[Path] = ()) -> Path:
        """The first copy of `file` with the right hash, else a download, else an error with the remedy."""
        copies = [path for place in self.places(below, also) if (path := place / file.name).is_file()]
        for path in copies:
            if self.trusts(path, file):
                return path
        home = self.cache / "raw" / below[0] / file.name
        # A root may hold another dataset's file of this name; in the dataset's own folder it is a mistake.
        wrong = [path for path in copies if path.parent.name in below or not (self.download and file.url)]
        if wrong:
            raise DataError(
                f"{wrong[0]}: size or hash are not those of the published {file.name}, so it is damaged or "
                f"another file. Replace it{f' by {file.url}' if file.url else ''}."
            )
        if self.download and file.url:
            return fetch.fetch(file.url, home, lambda path: self.trusts(path, file), self.progress)
        raise DataError(
            f"{file.name} not found. Put it into {home.parent}, or into {below[0]}/ below the folder given "
            f"by data.dir or $FEDSKEW_DATA{f'; it is published at {file.url}' if file.url else ''}."
        )
