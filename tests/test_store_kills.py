"""Real processes that are killed, or meet a limit, while they write a run."""

import multiprocessing
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from store_run import begin, result, train

from fedskew.errors import DiskError
from fedskew.store import layout
from fedskew.store.run import RunStore


@pytest.fixture(scope="module")
def processes() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedskew.store.run"])
    return context


def run_to_the_end(folder: str) -> None:
    torch.set_num_threads(1)
    with RunStore.open(Path(folder)) if layout.is_run(Path(folder)) else begin(Path(folder)) as store:
        train(store, 30)


def test_kills_at_random_moments_change_nothing(tmp_path: Path, processes: Any) -> None:
    run_to_the_end(str(tmp_path / "calm"))
    rng, kills, folder = random.Random(2), 0, tmp_path / "run"
    for _ in range(12):
        process = processes.Process(target=run_to_the_end, args=(str(folder),))
        process.start()
        time.sleep(rng.uniform(0.05, 0.5))
        process.kill()
        process.join()
        kills += process.exitcode == -9
    run_to_the_end(str(folder))
    assert kills > 0
    assert result(folder) == result(tmp_path / "calm")


def save_large(folder: str, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    said = r"File too large.*needs at least [0-9,]+ bytes.*raise the limit"
    with pytest.raises(DiskError, match=said) as caught, RunStore.open(Path(folder)) as store:
        store.save(1, {"shared": {"w": torch.ones(10_000)}}, {})
    sys.exit(caught.value.exit_code)


@pytest.mark.parametrize("limit", [500, 5_000, 39_000])
def test_a_limit_on_file_sizes_is_a_full_disk(tmp_path: Path, processes: Any, limit: int) -> None:
    with begin(tmp_path / "run") as store:
        store.save(0, {"shared": {"w": torch.zeros(1)}}, {})
    process = processes.Process(target=save_large, args=(str(tmp_path / "run"), limit))
    process.start()
    process.join()
    assert process.exitcode == 5
    assert not list((tmp_path / "run").rglob("*.part"))
    with RunStore.open(tmp_path / "run") as store:
        assert (store.round, store.warnings) == (0, ())
        store.save(1, {"shared": {"w": torch.ones(10_000)}}, {})
