"""What the records of clients say: accuracies by client and by class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedskew.report.gather import Seen

Row = Sequence[float | None]


class ClientMarks(NamedTuple):
    """All clients after one evaluated round, by the model each predicts with."""

    model: str
    clients: tuple[int, ...]
    home: tuple[float | None, ...]  # accuracy on the client's own test set
    everywhere: tuple[float | None, ...]  # and on everybody's
    per_class: tuple[tuple[float | None, ...], ...]  # [K, C], on everybody's


def of(record: Mapping[str, Any]) -> ClientMarks:
    """The marks of the method's own personal model, which a record names first."""
    model = next(key for key in record if key.endswith(".accuracy")).removesuffix(".accuracy")
    rows = tuple(tuple(row) for row in record[f"{model}.per_class"])
    return ClientMarks(
        model,
        tuple(record["clients"]),
        tuple(record[f"{model}.accuracy"]),
        tuple(record[f"{model}.drift"]),
        rows,
    )


def last(run: Seen) -> ClientMarks | None:
    """The newest marks; None if clients were never evaluated."""
    return of(run.clients[-1]) if run.clients else None


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known; None if nothing is."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(known) / len(known) if known else None


def column_means(rows: Sequence[Row]) -> list[float | None]:
    """The mean of every column."""
    return [mean(column) for column in zip(*rows, strict=True)]


def after_training(run: Seen) -> dict[int, list[float | None]]:
    """By round, the accuracy on each class of the participants' personal models, averaged over them."""
    joined = {record["round"]: frozenset(record["participants"]) for record in run.records}
    out = {}
    for record in run.clients:
        marks = of(record)
        chosen = joined.get(record["round"], frozenset())
        rows = [row for client, row in zip(marks.clients, marks.per_class, strict=True) if client in chosen]
        if rows:
            out[record["round"]] = column_means(rows)
    return out
