"""What a client has at home before a round replaces it by the download. Nothing here imports torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedskew.reproduce.reduce import mean

KEPT = "personal.kept"
Record = dict[str, Any]


def add(records: Sequence[Record], clients: Sequence[Record]) -> list[Record]:
    """With the accuracy at home of the participants' own models as they were before the round.

    Known where the clients were evaluated after the round before; one that has never taken part has what all
    download.
    """
    homes = {line["round"]: dict(zip(line["clients"], _own(line), strict=True)) for line in clients}
    out = []
    for record in records:
        before = homes.get(record["round"] - 1)
        found = [] if before is None else [before[client] for client in record["participants"]]
        kept = mean([math.nan if value is None else value for value in found])
        out.append(record if math.isnan(kept) else {**record, KEPT: kept})
    return out


def _own(line: Record) -> Sequence[float | None]:
    """Accuracies at home of the method's own personal model, which is the first."""
    found: Sequence[float | None] = next(value for key, value in line.items() if key.endswith(".accuracy"))
    return found
