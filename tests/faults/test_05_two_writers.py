"""Row 5: two processes on one run directory: one runs, the other is told so at once; a dead owner is no owner."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from counting import Tally, part_of
from victims import result, small, start, wait

from fedskew import runs
from fedskew.store.reader import RunReader


class Gate:
    """A line at which processes wait until it is opened."""

    def __init__(self) -> None:
        self.out, self.into = os.pipe()

    def wait(self) -> None:
        os.close(self.into)
        os.read(self.out, 1)

    def open(self) -> None:
        os.close(self.into)
        os.close(self.out)


def racer(place: Path, line: Gate, goal: Gate) -> int:
    """A process that starts with the others, and if it got the run keeps it until the goal is open."""

    def run() -> None:
        line.wait()
        runs.carry_on(place, lambda _, done, rounds: goal.wait() if done == 1 else None)

    return start(run)


def first_of(children: list[int]) -> tuple[int, int, float]:
    """The first child to end, how, and after how many seconds."""
    clock = time.monotonic()
    while True:
        for child in children:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return pid, os.waitstatus_to_exitcode(status), time.monotonic() - clock
        assert time.monotonic() - clock < 60
        time.sleep(0.002)


@pytest.mark.parametrize("races", [38, pytest.param(1996, marks=pytest.mark.slow)])
def test_exactly_one_runs(races: int, tmp_path: Path, tally: Tally) -> None:
    begun = runs.begin(small("fedavg", rounds=2), 0, tmp_path)
    whole, rng = tmp_path / "whole", random.Random(races)
    shutil.copytree(begun, whole)
    runs.carry_on(whole)
    expected = result(whole)
    for number in range(part_of(races)):
        place = tmp_path / f"run{number}"
        shutil.copytree(begun, place)
        with tally.case():
            line, goal = Gate(), Gate()
            racers = [racer(place, line, goal) for _ in range(2)]
            line.open()
            loser, code, seconds = first_of(racers)
            assert code == 6
            assert seconds < 2
            tally.largest("slowest refusal in s", round(seconds, 3))
            [winner] = set(racers) - {loser}
            if rng.random() < 0.5:  # its lock is left behind, and is nobody's
                os.kill(winner, signal.SIGKILL)
                assert wait(winner) == -signal.SIGKILL
                goal.open()
                runs.carry_on(place)
                former = [event["lock_of"] for event in RunReader(place).events() if event.get("lock_of")]
                assert [owner["pid"] for owner in former] == [winner]
                tally.add("locks of the dead taken over")
            else:
                goal.open()
                assert wait(winner) == 0
            assert result(place) == expected
        shutil.rmtree(place)


@pytest.mark.parametrize("races", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_command_line_ends_with_6(races: int, tmp_path: Path, tally: Tally) -> None:
    """Two real commands; the time is that of the whole refused command, imports and all."""
    for number in range(races):
        place = runs.begin(small("fedavg", rounds=2), 0, tmp_path / str(number))
        goal = Gate()
        owner = start(lambda place=place, goal=goal: runs.carry_on(place, lambda *_: goal.wait()))
        while RunReader(place).round() is None:
            time.sleep(0.01)
        with tally.case():
            clock = time.monotonic()
            command = [sys.executable, "-m", "fedskew", "resume", str(place)]
            before = os.times()
            refused = subprocess.run(command, capture_output=True, text=True)
            after = os.times()
            busy = after.children_user + after.children_system - before.children_user - before.children_system
            tally.largest("whole command in s", round(time.monotonic() - clock, 2))
            tally.largest("of which processor s", round(busy, 2))
            assert busy < 2, "its own time; how long it waits for a processor is not its doing"
            assert refused.returncode == 6
            assert f"process {owner} " in refused.stderr
            assert "Traceback" not in refused.stderr
        os.kill(owner, signal.SIGKILL)
        wait(owner)
        goal.open()
