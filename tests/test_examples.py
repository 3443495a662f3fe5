"""The examples run, learn something, and stay short."""

import ast
import importlib.util
import math
import os
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quick_start_compares_three_methods() -> None:
    results = load("quick_start").main(rounds=3, seeds=range(2))
    assert results.methods() == ["fedavg", "fedlc", "fedova"]
    assert all(row.seeds == 2 for row in results.summary())
    assert "personalised accuracy" in str(results)
    assert "<table>" in results._repr_html_()


@pytest.mark.parametrize(("name", "rounds"), [("own_data", 10), ("own_model", 6), ("own_method", 6)])
def test_own_pieces_learn(name: str, rounds: int) -> None:
    results = load(name).main(rounds)
    (row,) = results.summary()
    assert row.values["global.accuracy"].mean > 0.3
    assert not math.isnan(row.values["personal.accuracy"].mean)


def test_hospitals_learn_from_real_heartbeats() -> None:
    if not Path(os.environ.get("FEDSKEW_DATA", ""), "mitdb").is_dir() or "FEDSKEW_DATA" not in os.environ:
        pytest.skip("needs MIT-BIH: set FEDSKEW_DATA to a folder that holds mitdb/")
    results = load("hospitals").main(rounds=2, methods=("fedavg",))
    (row,) = results.summary()
    assert row.values["global.accuracy"].mean > 0.5


def test_hospitals_without_data_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert load("hospitals").main() is None
    assert "not here" in capsys.readouterr().out


def test_an_own_part_takes_at_most_forty_lines() -> None:
    tree = ast.parse((EXAMPLES / "own_method.py").read_text())
    part = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    assert part.end_lineno is not None
    assert part.end_lineno - part.lineno < 40
