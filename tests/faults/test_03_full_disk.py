"""Row 3: a disk that is really full: a small tmpfs where one may be mounted, and a limit on the size of files."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from counting import Tally, part_of
from store_run import begin
from victims import result, small, start, wait

from fedskew import runs
from fedskew.errors import DiskError
from fedskew.store.run import RunStore

METHODS = ("scaffold", "fedavg", "fedrep", "map", "fedova")


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes, or makes again with another size, a file system of so many bytes."""
    place = tmp_path / "tmpfs"
    place.mkdir()

    def mount(size: int) -> Path:
        again = ["-o", "remount"] if os.path.ismount(place) else []
        command = ["mount", "-t", "tmpfs", *again, "-o", f"size={size}", "tmpfs", str(place)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("a tmpfs cannot be mounted here")
        return place

    yield mount
    if os.path.ismount(place):
        subprocess.run(["umount", str(place)], check=True)


def no_remains(place: Path) -> None:
    assert not list(place.rglob("*.part")), "what a full disk took must not keep it full"


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_a_small_file_system(count: int, tmp_path: Path, tmpfs: Callable[[int], Path], tally: Tally) -> None:
    rng = random.Random(count)
    for number in range(part_of(count)):
        method = METHODS[number % len(METHODS)]
        calm = runs.begin(small(method), 0, tmp_path / str(number))
        assert wait(start(lambda place=calm: runs.carry_on(place))) == 0
        used = sum(path.stat().st_size for path in calm.rglob("*"))
        place = tmpfs(100 << 20)
        broken = runs.begin(small(method), 0, place)
        taken = sum(path.stat().st_blocks * 512 for path in place.rglob("*"))
        with tally.case():
            tmpfs(taken + rng.randrange(4096, max(8192, used // 2)))
            assert wait(start(lambda place=broken: runs.carry_on(place))) == 5
            no_remains(broken)
            tmpfs(100 << 20)
            assert wait(start(lambda place=broken: runs.carry_on(place))) == 0
            assert result(broken) == result(calm)
        shutil.rmtree(place / method)


def limited(place: Path, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    runs.carry_on(place)


@pytest.mark.parametrize("count", [6, pytest.param(30, marks=pytest.mark.slow)])
def test_a_limit_on_file_sizes(count: int, tmp_path: Path, tally: Tally) -> None:
    rng = random.Random(count)
    for number in range(part_of(count)):
        method = METHODS[number % len(METHODS)]
        broken = runs.begin(small(method), 0, tmp_path / str(number))
        calm = tmp_path / f"calm{number}"
        shutil.copytree(broken, calm)
        assert wait(start(lambda place=calm: runs.carry_on(place))) == 0
        largest = max(len(data) for name, data in result(calm).items() if name.startswith("states"))
        with tally.case():
            limit = rng.randrange(500, largest)
            assert wait(start(lambda place=broken, limit=limit: limited(place, limit))) == 5
            no_remains(broken)
            assert wait(start(lambda place=broken: runs.carry_on(place))) == 0
            assert result(broken) == result(calm)


@pytest.mark.parametrize("limit", [500, 5_000, 39_000])
def test_the_limit_is_told_with_what_is_needed(tmp_path: Path, limit: int, tally: Tally) -> None:
    with begin(tmp_path / "run") as store:
        store.save(0, {"shared": {"w": torch.zeros(1)}}, {})

    def save_large() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        said = r"File too large.*needs at least [0-9,]+ bytes.*raise the limit"
        with pytest.raises(DiskError, match=said) as caught, RunStore.open(tmp_path / "run") as store:
            store.save(1, {"shared": {"w": torch.ones(10_000)}}, {})
        raise caught.value

    with tally.case():
        assert wait(start(save_large)) == 5
        no_remains(tmp_path / "run")
        with RunStore.open(tmp_path / "run") as store:
            assert (store.round, store.warnings) == (0, ())
            store.save(1, {"shared": {"w": torch.ones(10_000)}}, {})
