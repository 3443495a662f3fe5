"""The page of counts is what its script makes of what was counted, and nothing that was counted failed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from counting import summed

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reliability", ROOT / "tools" / "reliability.py")
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_page_is_in_step_with_the_counts(tool: ModuleType) -> None:
    assert tool.PAGE.read_text(encoding="utf-8") == tool.text(*tool.known()), (
        "run: python tools/reliability.py"
    )


def test_everything_counted_has_passed(tool: ModuleType) -> None:
    counts, _ = tool.known()
    assert all(one["passed"] == one["tried"] > 0 for one in counts)
    assert {one["row"] for one in counts if one["form"] == "short"} >= set(tool.ROWS) - {14}


def test_every_row_has_its_tests(tool: ModuleType) -> None:
    found = {int(path.name[5:7]) for path in (ROOT / "tests" / "faults").glob("test_[0-9][0-9]_*.py")}
    assert found == set(tool.ROWS)


def test_a_new_count_replaces_the_old_one(tool: ModuleType) -> None:
    one = {"row": 1, "form": "short", "test": "t", "tried": 3, "passed": 3}
    two = {**one, "tried": 5, "passed": 5}
    other = {**one, "form": "long"}
    assert tool.merged([one, other], [two]) == [other, two]


def test_parameters_of_one_test_are_added_up() -> None:
    one = {"row": 1, "form": "short", "test": "t", "tried": 3, "passed": 2, "seconds": 1.5, "largest": 4}
    [whole] = summed([one, {**one, "largest": 7}])
    assert (whole["tried"], whole["passed"], whole["seconds"], whole["largest"]) == (6, 4, 3.0, 7)
