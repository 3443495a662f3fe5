"""Where the global model errs: between classes that meet in few clients, or in many. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

RARE, OFTEN = "errors.rare", "errors.often"
Record = dict[str, Any]


def add(records: Sequence[Record], counts: Sequence[Sequence[int]]) -> list[Record]:
    """The records with the shares of test examples taken for a class that theirs meets rarely, and often.

    Classes meet in a client that trains on both; rarely means in no more clients than the median pair.
    """
    held = np.asarray(counts) > 0
    meetings = held.T.astype(int) @ held
    other = ~np.eye(len(meetings), dtype=bool)
    rare = other & (meetings <= np.median(meetings[other]))
    return [{**record, **_errors(record, rare, other & ~rare)} for record in records]


def _errors(record: Record, rare: Any, often: Any) -> Record:
    if record.get("global.confusion") is None:
        return {}
    taken = np.asarray(record["global.confusion"], dtype=float)
    return {name: float(taken[pairs].sum() / taken.sum()) for name, pairs in ((RARE, rare), (OFTEN, often))}
