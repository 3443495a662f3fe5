"""Who lives, who has ended, and what is done about it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from flower_nodes import DirectPost, config, load

from fedskew.config import Config
from fedskew.flower import deployment, serve, watch
from fedskew.flower.deployment import Deployment
from fedskew.flower.processes import children, gone
from fedskew.store import layout
from fedskew.store.lock import Owner, canonical_owner, start_time
from fedskew.store.reader import RunReader

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
PARENT = [
    sys.executable,
    "-S",
    "-c",
    f"import subprocess, time; child = subprocess.Popen({SLEEP!r}); time.sleep(60)",
]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, start_new_session=True) as process:
        yield process
        process.kill()


def soon(wanted: bool, pid: int) -> bool:
    """Whether the process is, or becomes, gone or not."""
    deadline = time.monotonic() + 20
    while gone(pid) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return gone(pid) == wanted


def test_a_process_that_nobody_has_waited_for_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    assert not gone(sleeper.pid)
    os.kill(sleeper.pid, signal.SIGKILL)
    assert soon(True, sleeper.pid)
    assert Path(f"/proc/{sleeper.pid}").exists()
    sleeper.wait()
    assert gone(sleeper.pid)


def test_children_and_their_groups(sleeper: subprocess.Popen[bytes]) -> None:
    assert children(os.getpid())[sleeper.pid] == sleeper.pid
    assert sleeper.pid not in children(sleeper.pid)


def test_a_run_whose_server_was_killed_belongs_to_nobody(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    host = json.loads(canonical_owner(Owner.here()))["host"]
    owner = Owner(sleeper.pid, start_time(sleeper.pid), host)
    (tmp_path / layout.LOCK).write_bytes(canonical_owner(owner))
    assert watch._owned(tmp_path)
    os.kill(sleeper.pid, signal.SIGKILL)
    assert soon(True, sleeper.pid)
    assert not watch._owned(tmp_path)


def test_a_superlink_whose_executor_has_ended_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deployment, "_answers", lambda self: bool(children(self.processes["superlink"].pid)))
    popen = Deployment._popen
    monkeypatch.setattr(Deployment, "_popen", lambda self, command, out: popen(self, PARENT, out))
    monkeypatch.setattr(deployment, "ENDING", 0.1)
    with Deployment(tmp_path, 0) as started:
        started.start_link()
        first = started.processes["superlink"].pid
        assert list(started.revive()) == []
        [executor] = children(first)
        os.kill(executor, signal.SIGKILL)
        assert soon(True, executor)
        assert not gone(first)
        assert list(started.revive()) == ["superlink"]
        assert started.processes["superlink"].pid != first
        assert list(started.revive()) == []
    assert gone(first)


class Reluctant:
    """A deployment that takes a run at the third time, and carries it out at once."""

    def __init__(self, place: Path, config: Config) -> None:
        self.place, self.config, self.asked, self.revived = place, config, 0, 0

    def submit(self, app: Path, place: Path) -> None:
        self.asked += 1
        if self.asked < 3:
            raise deployment.DeploymentError("`flwr run` failed: busy.")
        serve.serve(self.config, place, load, DirectPost(self.config, self.place.parent), resume=True)

    def revive(self) -> Iterator[str]:
        self.revived += 1
        return iter(())

    def log(self, name: str) -> Path:
        return self.place


def test_a_run_that_is_not_taken_is_submitted_again(tmp_path: Path) -> None:
    settings, place, told = config("fedavg"), tmp_path / "run", list[str]()
    serve.begin(settings, place, load)
    reluctant = Reluctant(place, settings)
    watch.finish(reluctant, tmp_path, place, told.append, poll=0.01)  # type: ignore[arg-type]
    assert reluctant.asked == 3
    assert reluctant.revived >= 3
    assert told == ["`flwr run` failed: busy. Once more."] * 2
    assert RunReader(place).round() == 2


def test_a_run_that_nobody_takes_is_given_up(tmp_path: Path) -> None:
    settings, place = config("fedavg"), tmp_path / "run"
    serve.begin(settings, place, load)
    reluctant = Reluctant(place, settings)
    reluctant.asked = -100
    with pytest.raises(deployment.DeploymentError, match=f"stopped {watch.ATTEMPTS} times at round 0"):
        watch.finish(reluctant, tmp_path, place, lambda line: None, poll=0.01)  # type: ignore[arg-type]
