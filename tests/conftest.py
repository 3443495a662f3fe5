"""What several test files share: a finished run, and the counts of the fault tests, printed at the end."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from counting import KEY, LOG, PROPERTY, SUMS, Counts, Tally, summed

_counted: list[Counts] = []


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    from store_run import begin, train

    folder = tmp_path_factory.mktemp("reference") / "run"
    with begin(folder) as store:
        train(store)
    return folder


@pytest.fixture
def tally(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Iterator[Tally]:
    """The count of one test of tests/faults, whose file is named for its row of the table."""
    own = Tally()
    yield own
    row = re.match(r"test_(\d+)_", request.path.name)
    record_property(
        PROPERTY,
        {
            "row": int(row[1]) if row else 0,
            "test": request.node.name.split("[")[0],
            "form": "long" if request.node.get_closest_marker("slow") else "short",
            "tried": own.tried,
            "passed": own.passed,
            "seconds": round(time.monotonic() - own.began, 2),
            "processor_seconds": round(sum(os.times()[:4]) - own.busy, 2),
            **own.notes,
        },
    )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _counted.extend(value for name, value in report.user_properties if name == PROPERTY)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _counted:
        return
    terminalreporter.section("faults")
    for one in sorted(summed(_counted), key=lambda counts: (counts["row"], counts["form"], counts["test"])):
        first = f"row {one['row']:>2} {one['form']:<5} {one['passed']:>6} of {one['tried']:>6} {one['test']}"
        rest = {name: value for name, value in one.items() if name not in KEY and name not in SUMS[:2]}
        terminalreporter.write_line(first + "".join(f", {name} {value}" for name, value in rest.items()))
    if LOG in os.environ:
        with Path(os.environ[LOG]).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in summed(_counted))
