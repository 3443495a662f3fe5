"""Row 14: two thousand rounds: memory, files and open descriptors stay as they are, and so does the speed."""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from itertools import pairwise
from pathlib import Path

import pytest
from counting import Tally, part_of
from victims import small, start, wait

from fedskew import runs

ROUNDS, WINDOW = 2000, 100
MEGA = 1 << 20


def state(place: Path) -> dict[str, float]:
    """What must not grow, and the processor time so far, which other processes do not change."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    files = sum(len(names) for _, _, names in os.walk(place))
    open_files = len(os.listdir("/proc/self/fd"))
    return {"memory": resident, "files": files, "open": open_files, "busy": time.process_time()}


@pytest.mark.slow
def test_nothing_grows(tmp_path: Path, tally: Tally) -> None:
    rounds = max(2 * WINDOW, part_of(ROUNDS))
    config = small("scaffold", rounds, evaluate__every=10, evaluate__personal=0)
    place, log = runs.begin(config, 0, tmp_path), tmp_path / "soak.jsonl"

    def watched() -> None:
        with log.open("w") as file:
            runs.carry_on(place, lambda *_: file.write(json.dumps(state(place)) + "\n") and None)

    assert wait(start(watched)) == 0
    seen = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(seen) == rounds
    early, late = seen[WINDOW // 2 : WINDOW], seen[-WINDOW // 2 :]
    seconds = [after["busy"] - before["busy"] for before, after in pairwise(seen)]
    first, last = statistics.median(seconds[:WINDOW]), statistics.median(seconds[-WINDOW:])
    tally.tried = rounds
    tally.notes |= {
        "memory grown by MB": round((late[-1]["memory"] - early[-1]["memory"]) / MEGA, 1),
        "files grown by": late[-1]["files"] - early[-1]["files"],
        "open files grown by": late[-1]["open"] - early[-1]["open"],
        "first rounds in ms": round(1000 * first, 2),
        "last rounds in ms": round(1000 * last, 2),
    }
    assert late[-1]["memory"] - early[-1]["memory"] < 10 * MEGA
    assert max(row["files"] for row in late) <= max(row["files"] for row in early)
    assert max(row["open"] for row in late) <= max(row["open"] for row in early)
    assert last < 1.1 * first
    tally.passed = rounds
