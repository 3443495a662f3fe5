"""Row 11: wrong configurations made from the schema: exit 2, key and remedy named, nothing written, no traceback."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
from command import Done, fedskew
from counting import Tally, part_of
from victims import small
from wrong_configs import KINDS, Wrong

from fedskew.config import _set, _without_none

REMEDIES = ("should", "choices", "did you mean", "give ", "use ", "write", "needs", "cannot", "must", "only")


def write(wrong: Wrong, path: Path) -> None:
    """A good configuration with the one mistake in it."""
    table = _without_none(small("fedavg").model_dump(mode="json"))
    for key, value in wrong.overrides.items():
        _set(table, key, value)
    path.write_text(tomli_w.dumps(table), encoding="utf-8")


def explained(done: Done, wrong: Wrong, tmp_path: Path) -> None:
    assert done.code == 2, (wrong, done)
    said = done.err.lower()
    assert wrong.key.rpartition(".")[2].lower() in said, (wrong, done.err)
    assert any(remedy in said for remedy in REMEDIES), (wrong, done.err)
    assert "traceback" not in said
    assert "pydantic" not in said
    assert len(done.err) < 2000, "an explanation, not a page"
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"], "something was written"


@pytest.mark.parametrize("count", [640, pytest.param(9_950, marks=pytest.mark.slow)])
def test_one_mistake(count: int, tmp_path: Path, tally: Tally) -> None:
    rng = random.Random(count)
    for number in range(part_of(count)):
        wrong = KINDS[number % len(KINDS)](rng)
        write(wrong, tmp_path / "config.toml")
        with tally.case():
            done = fedskew("run", str(tmp_path / "config.toml"), "--out", str(tmp_path / "runs"))
            explained(done, wrong, tmp_path)


@pytest.mark.parametrize("count", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_the_real_command(count: int, tmp_path: Path, tally: Tally) -> None:
    rng = random.Random(count)
    for number in range(part_of(count)):
        wrong = KINDS[number % len(KINDS)](rng)
        write(wrong, tmp_path / "config.toml")
        command = [sys.executable, "-m", "fedskew", "run", str(tmp_path / "config.toml")]
        with tally.case():
            ended = subprocess.run(
                [*command, "--out", str(tmp_path / "runs")], capture_output=True, text=True
            )
            explained(Done(ended.returncode, ended.stdout, ended.stderr), wrong, tmp_path)


@pytest.mark.parametrize(
    ("content", "override", "said"),
    [
        (b"train = [", (), "not valid TOML"),
        (b"\xff\xfe\x00", (), "cannot be read"),
        (b"", ("train.lr",), "key=value"),
        (b"", ("=3",), "key=value"),
        (b"", ("train.lr.deep=1",), "is a value|valid number"),
        (b"[train]\nlr = 0.1\n", ("train.lr.deep=1",), "is a value"),
    ],
)
def test_files_and_overrides_that_are_none(
    content: bytes, override: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    words = [word for one in override for word in ("-s", one)]
    done = fedskew("run", str(path), "--out", str(tmp_path / "runs"), *words)
    assert done.code == 2
    assert any(one in done.err for one in said.split("|")), done.err
    assert not (tmp_path / "runs").exists()
