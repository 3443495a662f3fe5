"""Row 1: SIGKILL at random moments; what is resumed ends with the bytes of a run that nothing disturbed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from itertools import cycle
from pathlib import Path

import pytest
from counting import Tally, part_of
from victims import result, small, start, wait

from fedskew import runs
from fedskew.methods import presets
from fedskew.store.reader import RunReader

PER_RUN = 2  # kills of one run at most, so that all presets have their turn


class Whole:
    """The undisturbed run of each preset: its bytes, and how long it took."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seconds = folder, dict[str, float]()

    def of(self, method: str) -> Path:
        place = self.folder / method / "0"
        if method not in self.seconds:
            runs.begin(small(method), 0, self.folder)
            shutil.copytree(place, self.folder / "begun" / method)
            clock = time.monotonic()
            assert wait(start(lambda: runs.carry_on(place))) == 0
            self.seconds[method] = time.monotonic() - clock
        return place

    def begun(self, method: str) -> Path:
        return self.folder / "begun" / method


def killed(place: Path, after: float) -> tuple[bool, int]:
    """Goes on with a run and kills it meanwhile: whether it was still alive, and the rounds it had told of."""
    ours, theirs = os.pipe()

    def victim() -> None:
        os.close(ours)
        runs.carry_on(place, lambda _, done, rounds: os.write(theirs, bytes([done])) and None)

    child = start(victim)
    os.close(theirs)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    code = wait(child)
    with os.fdopen(ours, "rb") as line:
        told = max(line.read(), default=0)
    assert code in (0, -signal.SIGKILL)
    return code != 0, told


def committed(place: Path) -> int:
    found = RunReader(place).round()
    return 0 if found is None else found + 1


@pytest.mark.parametrize("kills", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_killed_and_resumed_equals_undisturbed(kills: int, tmp_path: Path, tally: Tally) -> None:
    whole, rng = Whole(tmp_path / "whole"), random.Random(kills)
    seen: set[str] = set()
    for method in cycle(presets()):
        expected, broken = result(whole.of(method)), tmp_path / "broken"
        shutil.copytree(whole.begun(method), broken)
        done, alive = tally.tried, True
        while alive and tally.tried < min(done + PER_RUN, part_of(kills)):
            before = committed(broken)
            alive, told = killed(broken, rng.uniform(0, whole.seconds[method]))
            assert committed(broken) >= max(told, before), "a round that was told of is lost"
            tally.tried += alive
        assert wait(start(lambda place=broken: runs.carry_on(place))) == 0
        assert result(broken) == expected, method
        tally.passed = tally.tried
        seen.add(method)
        shutil.rmtree(broken)
        if tally.tried == part_of(kills):
            break
    tally.notes["presets"] = len(seen)
