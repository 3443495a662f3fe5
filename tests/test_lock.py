"""One writer per run directory, with real processes."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from fedskew.errors import LockedError
from fedskew.store.lock import Lock, Owner, refuse_if_owned, start_time

RACES = 20
HOLD = """
import os, sys, time
from pathlib import Path
from fedskew.store.lock import Lock
lock = Lock(Path(sys.argv[1]))
if "fork" not in sys.argv or os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(60)
"""


def holder(path: Path, *flags: str) -> tuple[subprocess.Popen[str], int]:
    """A process that has the lock, and the last process it made: its child if it was told to fork."""
    command = [sys.executable, "-c", HOLD, str(path), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_second_owner_is_refused_even_in_one_process(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    with pytest.raises(LockedError, match=f"in use by process {os.getpid()} on "):
        Lock(tmp_path / "lock")
    lock.release()
    Lock(tmp_path / "lock").release()


def test_a_living_owner_is_named_at_once_and_left_alone(tmp_path: Path) -> None:
    process, _ = holder(tmp_path / "lock")
    before = (tmp_path / "lock").read_bytes(), (tmp_path / "lock").stat().st_ino
    began = time.monotonic()
    with pytest.raises(LockedError, match=f"{tmp_path}.*process {process.pid} on .*fedskew resume") as caught:
        Lock(tmp_path / "lock")
    assert time.monotonic() - began < 0.4
    assert caught.value.exit_code == 6
    assert before == ((tmp_path / "lock").read_bytes(), (tmp_path / "lock").stat().st_ino)
    end(process)


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    process, _ = holder(tmp_path / "lock")
    end(process)
    lock = Lock(tmp_path / "lock")
    assert lock.former is not None
    assert lock.former.pid == process.pid
    assert not lock.former.alive()
    assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    lock.release()


def test_a_worker_that_outlives_its_killed_parent_holds_nothing(tmp_path: Path) -> None:
    process, child = holder(tmp_path / "lock", "fork")
    with pytest.raises(LockedError):
        Lock(tmp_path / "lock")
    process.kill()
    process.wait()
    os.kill(child, 0)  # it is still there
    Lock(tmp_path / "lock").release()
    os.kill(child, signal.SIGKILL)
    process.communicate()


def test_a_released_lock_names_nobody(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    lock.check()
    lock.release()
    lock.release()
    assert (tmp_path / "lock").read_bytes() == b""
    with pytest.raises(LockedError, match="no longer owns"):
        lock.check()
    again = Lock(tmp_path / "lock")
    assert again.former is None
    again.release()


@pytest.mark.parametrize(
    "text", [b"", b"\xff\x00", b"[]", b"[" * 5000, b'{"pid": %d, "started": 1, "host": "x"}' % (2**70)]
)
def test_what_the_file_says_does_not_decide(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "lock").write_bytes(text)
    lock = Lock(tmp_path / "lock")
    assert lock.former is None
    (tmp_path / "lock").write_bytes(text)
    began = time.monotonic()
    with pytest.raises(LockedError, match="in use by another process"):
        Lock(tmp_path / "lock")
    assert time.monotonic() - began < 2
    lock.release()


def test_a_lock_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    (tmp_path / "lock").unlink()
    with pytest.raises(LockedError, match="no longer owns"):
        lock.check()
    other = Lock(tmp_path / "lock")
    with pytest.raises(LockedError, match="no longer owns"):
        lock.check()
    lock.release()
    other.check()
    assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    other.release()


def test_to_ask_who_owns_it_changes_nothing(tmp_path: Path) -> None:
    process, _ = holder(tmp_path / "lock")
    before = (tmp_path / "lock").read_bytes()
    with pytest.raises(LockedError, match=f"in use by process {process.pid} on "):
        refuse_if_owned(tmp_path / "lock")
    end(process)
    refuse_if_owned(tmp_path / "lock")
    assert (tmp_path / "lock").read_bytes() == before, "the next owner still learns who died"


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    here = Owner.here()
    assert here.alive()
    assert here.started == start_time(os.getpid()) is not None
    assert not here._replace(started=1).alive()
    assert here._replace(started=None).alive()
    assert here._replace(pid=1, started=1, host="elsewhere").alive()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not here._replace(pid=gone.pid).alive()
    assert start_time(gone.pid) is None


def race(folder: str, line: Barrier, results: "Queue[tuple[int, str]]") -> None:
    for number in range(RACES):
        line.wait()
        lock = None
        try:
            lock = Lock(Path(folder) / f"lock{number}")
            results.put((number, "won"))
        except LockedError as error:
            results.put((number, str(error)))
        line.wait()
        if lock is not None:
            lock.release()


def test_of_two_racers_exactly_one_wins(tmp_path: Path) -> None:
    context: Any = multiprocessing.get_context("spawn")
    line, results = context.Barrier(2), context.Queue()
    racers = [context.Process(target=race, args=(str(tmp_path), line, results)) for _ in range(2)]
    for racer in racers:
        racer.start()
    outcomes: dict[int, list[str]] = {}
    for _ in range(2 * RACES):
        number, outcome = results.get(timeout=60)
        outcomes.setdefault(number, []).append(outcome)
    for racer in racers:
        racer.join()
    assert len(outcomes) == RACES
    for said in outcomes.values():
        assert said.count("won") == 1
        [refusal] = [text for text in said if text != "won"]
        assert any(f"process {racer.pid} " in refusal for racer in racers)
