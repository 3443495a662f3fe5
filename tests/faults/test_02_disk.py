"""Row 2: a crash, a full disk or a fault at every call that changes a run directory, and power cuts."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from pathlib import Path

import pytest
import torch
from command import fedskew
from counting import Tally
from store_faults import CrashError, Faults, PowerCut
from store_run import LAST, begin, finish, result, train
from victims import result as result_of
from victims import small

from fedskew.errors import DiskError
from fedskew.store import disk
from fedskew.store.reader import RunReader
from fedskew.store.run import RunStore


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for the real disk: what it would lose is the subject of the power cuts."""
    monkeypatch.setattr(disk, "fsync", lambda descriptor: None)
    monkeypatch.setattr(disk, "sync_folder", lambda path: None)


def whole_run(folder: Path, faults: Faults) -> tuple[list[int], BaseException | None]:
    """Creates a run and trains it on a bad disk: the rounds that were committed, and what ended it."""
    done: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        faults.install(patch)
        try:
            with begin(folder) as store:
                train(store, committed=done.append)
        except (DiskError, CrashError) as error:
            return done, error
    return done, None


def count_calls(tmp_path: Path) -> int:
    faults = Faults(-1, CrashError)
    assert whole_run(tmp_path / "count", faults) == (list(range(LAST + 1)), None)
    assert faults.calls > 100
    return faults.calls


KINDS = {
    "no space": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "fault": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "crash": CrashError,
}
ADVICE = {"no space": "Free space", "fault": "copy the run directory"}


@pytest.mark.parametrize(
    ("kind", "forever"),
    [
        ("no space", True),
        ("fault", False),
        ("crash", False),
        pytest.param("no space", False, marks=pytest.mark.slow),
    ],
)
def test_a_fault_at_any_call_leaves_the_round_before(
    tmp_path: Path, reference: Path, kind: str, forever: bool, tally: Tally
) -> None:
    expected = result(reference)
    for at in range(count_calls(tmp_path)):
        folder = tmp_path / f"run{at}"
        with tally.case():
            done, failure = whole_run(folder, Faults(at, KINDS[kind], forever))
            if kind == "crash":
                assert isinstance(failure, CrashError)
            else:
                assert isinstance(failure, DiskError)
                assert failure.exit_code == 5
                assert str(folder) in str(failure)
                assert ADVICE[kind] in str(failure)
            if done:
                with RunStore.open(folder) as store:
                    assert store.warnings == ()
                    assert store.round in (done[-1], done[-1] + 1)
            finish(folder)
            assert result(folder) == expected, (kind, at)
        shutil.rmtree(folder)


def test_a_commit_that_failed_can_be_tried_again(tmp_path: Path, tally: Tally) -> None:
    state = {"private": {"w": torch.randn(1000)}}
    for at in itertools.count():
        with begin(tmp_path / f"run{at}") as store:
            store.log_metrics({"round": 0, "value": 1})
            with pytest.MonkeyPatch.context() as patch:
                Faults(at, KINDS["no space"]).install(patch)
                try:
                    store.log_metrics({"round": 0, "value": "a longer line that may break in the middle"})
                    store.save(0, {}, {1: state})
                    break
                except DiskError:
                    pass
            if store.round is None:
                store.log_metrics({"round": 0, "value": 2})
                store.save(0, {}, {1: state})
        with tally.case(), RunStore.open(tmp_path / f"run{at}") as store:
            assert store.warnings == ()
            assert store.round == 0
        opened = RunReader(tmp_path / f"run{at}").events()[-1]
        assert opened["dropped_bytes"] == {"metrics.jsonl": 0, "clients.jsonl": 0}
    assert at > 10


@pytest.mark.parametrize("chance", [1.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_a_power_cut_at_any_call_loses_no_committed_round(
    tmp_path: Path, reference: Path, chance: float, tally: Tally
) -> None:
    expected = result(reference)
    for at in range(count_calls(tmp_path)):
        root, grave = tmp_path / f"root{at}", tmp_path / f"grave{at}"
        root.mkdir()
        grave.mkdir()
        with tally.case():
            cut = PowerCut(at, root, grave, chance, seed=at)
            done, failure = whole_run(root / "run", cut)
            assert isinstance(failure, CrashError)
            cut.strike()
            if done:
                with RunStore.open(root / "run") as store:
                    assert store.warnings == ()
                    assert store.round in (done[-1], done[-1] + 1)
            finish(root / "run")
            assert result(root / "run") == expected, at
        shutil.rmtree(root)
        shutil.rmtree(grave)


@pytest.mark.parametrize("stride", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_the_command_line_ends_with_5_and_resumes(tmp_path: Path, stride: int, tally: Tally) -> None:
    """A real method under `fedskew run`, on a disk that is full from any call on."""
    config = tmp_path / "config.toml"
    config.write_text(small("scaffold", rounds=2).toml())
    faults = Faults(-1, CrashError)
    with pytest.MonkeyPatch.context() as patch:
        faults.install(patch)
        assert fedskew("run", str(config), "--out", str(tmp_path / "calm")).code == 0
    expected = result_of(tmp_path / "calm/scaffold/0")
    for at in range(0, faults.calls - 1, stride):  # the last call is the event that says so
        out = tmp_path / str(at)
        with tally.case():
            with pytest.MonkeyPatch.context() as patch:
                Faults(at, KINDS["no space"], forever=True).install(patch)
                done = fedskew("run", str(config), "--out", str(out))
            assert done.code == 5, (at, done)
            assert "Free space" in done.err
            assert "Traceback" not in done.err
            again = (
                ("resume", str(out))
                if (out / "scaffold/0/run.json").exists()
                else ("run", str(config), "--out", str(out))
            )
            assert fedskew(*again).code == 0
            assert result_of(out / "scaffold/0") == expected
        shutil.rmtree(out, ignore_errors=True)
