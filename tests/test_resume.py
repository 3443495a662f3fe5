"""A run that is killed at any moment and resumed ends with the bytes of one that never stopped."""

import os
import random
import shutil
import signal
import time
import traceback
from pathlib import Path

import pytest
import torch

from fedskew import runs
from fedskew.config import Config, parse
from fedskew.methods import presets

KILLS = int(os.environ.get("FEDSKEW_KILLS", "20"))
METHODS = ("fedavg", "scaffold", "map", "grpfed", "fedova", "fedadam", "per-fedavg", "feddyn")


def config(method: str, rounds: int = 4) -> Config:
    return parse(
        {
            "name": method,
            "split": {"scheme": "labels", "clients": 10, "per_client": 2},
            "model": {"name": "mlp", "hidden": [8]},
            "method": {"preset": method},
            "train": {"rounds": rounds, "epochs": 1, "batch": 32, "lr": 0.05, "momentum": 0.5},
            "evaluate": {"personal": 2},
            "engine": {"name": "serial"},
        },
        "test",
    )


def result(place: Path) -> dict[str, bytes]:
    """Everything in a run directory that belongs to the result; events hold times of day."""
    skipped = ("events.jsonl", "lock")
    files = (path for path in place.rglob("*") if path.is_file() and path.name not in skipped)
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def start(place: Path) -> int:
    """Trains in a child of this process, which has torch already."""
    child = os.fork()
    if child:
        return child
    try:
        torch.set_num_threads(1)
        runs.carry_on(place)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(scope="module")
def duration() -> dict[str, float]:
    """Seconds a whole run takes, by method; measured by the first undisturbed one."""
    return {}


@pytest.mark.parametrize("kill", range(KILLS))
def test_killed_and_resumed_equals_undisturbed(kill: int, tmp_path: Path, duration: dict[str, float]) -> None:
    method = METHODS[kill % len(METHODS)]
    whole = runs.begin(config(method), 0, tmp_path / "whole")
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    clock = time.monotonic()
    assert wait(start(whole)) == 0
    duration[method] = time.monotonic() - clock
    child = start(broken)
    time.sleep(random.Random(kill).uniform(0, duration[method]))
    os.kill(child, signal.SIGKILL)
    assert wait(child) in (-signal.SIGKILL, 0)
    assert wait(start(broken)) == 0
    assert result(broken) == result(whole)


def test_every_preset_resumes_in_the_middle(tmp_path: Path) -> None:
    """Stopped after every round, for all presets: what a client or the server remembers is all in the checkpoint."""

    class StopError(Exception):
        pass

    def stop(place: Path, done: int, rounds: int) -> None:
        raise StopError

    for method in presets():
        whole = runs.begin(config(method, rounds=3), 0, tmp_path / "whole")
        pieces = tmp_path / "pieces" / method
        shutil.copytree(whole, pieces)
        runs.carry_on(whole)
        for _ in range(3):
            with pytest.raises(StopError):
                runs.carry_on(pieces, stop)
        runs.carry_on(pieces)
        assert result(pieces) == result(whole), method
