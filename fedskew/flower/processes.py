"""What the system says about processes: who has ended, and who came from whom."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for counts as ended."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "Z"


def children(pid: int) -> dict[int, int]:
    """The children of a process and the process group of each."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            _, parent, group, *_ = path.read_text().rpartition(")")[2].split()
            if int(parent) == pid:
                found[int(path.parent.name)] = int(group)
    return found
