"""Files for people: whole or not at all, with the permissions that files of theirs have."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fedskew.errors import DiskError


def written(path: Path, fill: Callable[[Path], None]) -> None:
    """Lets `fill` write a neighbour of `path` and moves it there."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fill(part)
        part.replace(path)
    except OSError as error:
        raise DiskError(f"{path}: cannot be written ({error.strerror}). Choose another place.") from error
    finally:
        with suppress(OSError):
            part.unlink()


def write_text(path: Path, text: str) -> None:
    """Writes a text."""

    def fill(part: Path) -> None:
        part.write_text(text, encoding="utf-8")

    written(path, fill)
