"""How the fault tests count: a case is tried, then passed; what was counted is printed and can be kept."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

PROPERTY = "faults"  # under which a report carries what its test has counted
LOG = "FEDSKEW_FAULTS_LOG"  # a file that gets one line of JSON per test
PART = "FEDSKEW_FAULTS_PART"  # the share of a long form that is run, where there is no night for it

KEY = ("row", "form", "test")  # what the cases of one test have in common
SUMS = ("tried", "passed", "seconds", "processor_seconds")
Counts = dict[str, Any]


@dataclass
class Tally:
    """The cases of one test; one that fails ends it, so that fewer have passed than were tried."""

    tried: int = 0
    passed: int = 0
    notes: dict[str, float | int | str] = field(default_factory=dict)  # further figures worth telling
    began: float = field(default_factory=time.monotonic)
    busy: float = field(default_factory=lambda: sum(os.times()[:4]))  # of this process and its dead children

    @contextmanager
    def case(self) -> Iterator[int]:
        """One case; gives its number."""
        number = self.tried
        self.tried += 1
        yield number
        self.passed += 1

    def largest(self, name: str, value: float) -> None:
        """Notes the largest value seen under this name."""
        self.notes[name] = max(float(self.notes.get(name, value)), value)

    def add(self, name: str, value: int = 1) -> None:
        """Adds to a count beside that of the cases."""
        self.notes[name] = int(self.notes.get(name, 0)) + value


def part_of(count: int) -> int:
    """The cases of a long form, or the share of them that was asked for."""
    return max(1, round(count * float(os.environ.get(PART, "1"))))


def summed(counts: Iterable[Counts]) -> list[Counts]:
    """One record for every test, whatever its parameters; of further figures the largest."""
    found: dict[tuple[Any, ...], Counts] = {}
    for one in counts:
        whole = found.setdefault(tuple(one[name] for name in KEY), {})
        for name, value in one.items():
            if name in SUMS:
                whole[name] = round(whole.get(name, 0) + value, 2)
            else:
                whole[name] = max(whole.get(name, value), value)
    return list(found.values())
