"""Files that appear whole or not at all."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

DAY = 86_400  # seconds


def write_with(path: Path, fill: Callable[[Path], None]) -> bool:
    """Lets `fill` write a neighbour of `path` and moves it there; False if that place cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
    except OSError:
        return False
    part = Path(name)
    try:
        fill(part)
        part.replace(path)
    except OSError:
        return False
    finally:
        part.unlink(missing_ok=True)
    return True


def _sweep(path: Path) -> None:
    """Removes what a writer that was killed a day ago or earlier has left beside `path`."""
    for part in path.parent.glob(f".{path.name}.*.part"):
        if part.stat().st_mtime < time.time() - DAY:
            part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> bool:
    """Writes `text` to `path` in one step; False if the place cannot be written."""

    def fill(part: Path) -> None:
        part.write_text(text)

    return write_with(path, fill)
