"""How much of this machine there is to use."""

import os


def cores() -> int:
    """Processor cores this process may use."""
    mine = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(mine(0)) if mine else os.cpu_count() or 1
