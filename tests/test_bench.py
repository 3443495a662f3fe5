"""The workloads are the fixed ones, and `fedskew bench` says what it measured."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from command import fedskew

from fedskew import bench, models
from fedskew.bench import sheet, workloads
from fedskew.bench.rounds import megabytes
from fedskew.data.federation import Training
from fedskew.data.partition import IID
from fedskew.engines.choose import Choice
from fedskew.errors import DataError
from fedskew.kernels import prepare
from fedskew.kernels.chain import chain_of
from fedskew.step import SGD

ROOT = Path(__file__).parent.parent
TINY = bench.Workload(
    "tiny", "logistic", IID(clients=4), 0.5, Training(1, 8), SGD(0.1), 100, 1e3, (1, 4, 4), 64
)


def dense_flops(model: str, shape: tuple[int, ...]) -> float:
    """Two operations for every weight and place: forward, to the weights, and but for the first layer to the input."""
    chain = chain_of(models.network(model).module(shape, 10), "head")
    assert chain is not None
    grids = chain.grids(shape)
    assert grids is not None
    total = 0
    for number, (link, grid) in enumerate(zip(chain.links, grids, strict=True)):
        weights, places = link.inputs * link.outputs, 1
        if link.kernel is not None:
            height, width = link._replace(pool=(1, 1)).grid(grid)
            weights, places = weights * link.kernel[0] * link.kernel[1], height * width
        total += 2 * weights * places * (3 if number else 2)
    return total


@pytest.mark.parametrize("name", bench.WORKLOADS)
def test_operations_are_those_of_the_network(name: str) -> None:
    work = bench.WORKLOADS[name]
    assert work.flops == pytest.approx(dense_flops(work.model, work.shape), rel=0.005)


@pytest.mark.parametrize("name", bench.WORKLOADS)
def test_rounds_have_their_nominal_size(name: str) -> None:
    work = bench.WORKLOADS[name]
    assert work.passes == work.samples * work.participation * work.training.epochs


def test_without_the_data_there_is_a_stand_in_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise DataError("not here")

    monkeypatch.setattr(workloads.registry, "load", nothing)
    data = replace(bench.WORKLOADS["W1"], samples=500).dataset()
    assert data.x.shape == (550, 1, 28, 28)
    assert workloads.STAND_IN in data.name


def test_seconds_are_scaled_to_the_nominal_round() -> None:
    once = bench.measure(TINY, Choice("serial", backend="autograd"), rounds=1)
    thousand = bench.measure(replace(TINY, passes=1_000_000), Choice("serial", backend="autograd"), rounds=1)
    assert 0 < once.fastest <= once.seconds < thousand.seconds
    assert once.gflops == pytest.approx(TINY.passes * TINY.flops / once.seconds / 1e9)
    assert (once.choice.name, once.workers) == ("serial", 1)


def test_a_pool_is_measured_with_its_workers() -> None:
    found = bench.measure(TINY, Choice("pool", 2, backend="autograd"), rounds=1)
    assert found.workers == 2
    assert found.megabytes > megabytes([])


def test_the_peak_is_above_what_python_can_do() -> None:
    found = bench.peaks(1)
    assert found.gemm > 1
    assert (found.fma is None) == (not prepare("native"))
    assert found.fma is None or found.fma > 1


def test_the_sheet_is_flat() -> None:
    timing = bench.measure(TINY, Choice("serial", backend="autograd"), rounds=1)
    (row,) = json.loads(sheet.text([("T", timing)], bench.Peaks(2, None, 10.0)))
    assert row["workload"] == "T"
    assert row["backend"] == "autograd"
    assert row["fma_peak"] is None
    assert not any(isinstance(value, dict | list) for value in row.values())


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(workloads.WORKLOADS, "W1", TINY)
    monkeypatch.setattr(bench, "peaks", lambda cores: bench.Peaks(cores, 20.0, 10.0))
    file = tmp_path / "bench.json"
    said = fedskew("bench", "W1", "--rounds", "1", "--engine", "serial", "--json", str(file))
    assert said.code == 0, said.err
    assert "GEMM 10 GFLOP/s, FMA 20 GFLOP/s" in said.out
    assert json.loads(file.read_text())[0]["engine"] == "serial"


def script(name: str) -> ModuleType:
    """A file of benchmarks/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_was_measured() -> None:
    """As `python benchmarks/tables.py` writes it."""
    tables = script("tables")
    text = tables.PAGE.read_text(encoding="utf-8")
    assert tables.page(text) == text
    with pytest.raises(ValueError, match="no part x"):
        tables.filled(text, "x", "")


def test_a_table_has_all_columns_and_shows_nothing_for_nothing() -> None:
    shown = script("tables").table([{"a": 1.23456, "b": None}, {"a": "x", "c": 12.0}])
    assert shown.splitlines() == ["| a | b | c |", "|---|---|---|", "| 1.23 |  |  |", "| x |  | 12 |"]


def test_peers_read_what_is_written_for_them(tmp_path: Path) -> None:
    setting = script("peers/setting")
    made = setting.Setting(
        np.zeros((4, 1, 2, 2), np.float32),
        np.arange(4),
        [np.array([0, 1]), np.array([2, 3])],
        [[0, 1], [1]],
        [np.ones((3, 4), np.float32), np.zeros(3, np.float32)],
        *("net", 5, 2, 0.1, 0.9, 0.0, 2),
    )
    setting.save(tmp_path, made)
    read = setting.load(tmp_path)
    assert read.passes(read.participants[0]) == 20
    assert all(np.array_equal(a, b) for a, b in zip(read.clients, made.clients, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(read.start, made.start, strict=True))
    assert read[5:] == made[5:]


@pytest.mark.parametrize("words", [("W9",), ("W1", "--engine", "warp"), ("W1", "--method", "fedwrong")])
def test_a_mistake_is_a_sentence(words: tuple[str, ...]) -> None:
    said = fedskew("bench", *words)
    assert said.code == 2
    assert "error" in said.err
