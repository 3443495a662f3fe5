"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_with(path: Path, fill: Callable[[Path], None]) -> bool:
    """Lets `fill` write a neighbour of `path` and moves it there; False if that place cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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


def write_text(path: Path, text: str) -> bool:
    """Writes `text` to `path` in one step; False if the place cannot be written."""

    def fill(part: Path) -> None:
        part.write_text(text)

    return write_with(path, fill)
