"""Timings as figures that can be stored."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fedskew.bench.peaks import Peaks
from fedskew.bench.rounds import Timing

Row = dict[str, str | int | float | None]


def rows(timings: Sequence[tuple[str, Timing]], best: Peaks) -> list[Row]:
    """One flat object for every workload."""
    return [
        {
            "workload": name,
            "engine": one.choice.name,
            "backend": one.choice.backend,
            "workers": one.workers,
            "seconds": round(one.seconds, 4),
            "fastest": round(one.fastest, 4),
            "gflops": round(one.gflops, 1),
            "gemm_peak": round(best.gemm, 1),
            "fma_peak": None if best.fma is None else round(best.fma, 1),
            "megabytes": round(one.megabytes),
            "loss": round(one.loss, 5),
            "data": one.data,
        }
        for name, one in timings
    ]


def text(timings: Sequence[tuple[str, Timing]], best: Peaks) -> str:
    """The rows as JSON."""
    return json.dumps(rows(timings, best), indent=1) + "\n"
