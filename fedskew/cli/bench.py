"""The command bench: seconds a round, against what this machine can do at best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console, table

if TYPE_CHECKING:
    from fedskew.bench import Peaks, Timing


@app.command()
def bench(
    workloads: Annotated[list[str] | None, typer.Argument(help="W1 to W5; default: all.")] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds timed, after one more.")] = 3,
    method: Annotated[str, typer.Option("--method", help="A preset, or several joined by '+'.")] = "fedavg",
    engine: Annotated[str, typer.Option("--engine", help="auto, serial, vectorised, pool or ray.")] = "auto",
    backend: Annotated[str, typer.Option("--backend", help="auto, autograd, torch or native.")] = "auto",
    workers: Annotated[int, typer.Option("--workers", min=0, help="Processes of a pool; 0: all cores.")] = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
) -> None:
    """Time fixed workloads and compare them with this machine's peak, measured alongside."""
    from fedskew.bench import measure, peaks
    from fedskew.bench.sheet import text
    from fedskew.bench.workloads import WORKLOADS, workload
    from fedskew.config import parse
    from fedskew.cores import cores
    from fedskew.engines.choose import Choice
    from fedskew.files import write_text

    chosen = {name: workload(name) for name in workloads or WORKLOADS}
    table = {"name": engine, "backend": backend, "workers": workers}
    asked = Choice(**parse({"engine": table}, "fedskew bench").engine.model_dump())
    best = peaks(workers or cores())
    rows = []
    for name, work in chosen.items():
        console.print(f"{name}: {work.about}", markup=False)
        rows.append((name, measure(work, asked, rounds, method)))
    _show(rows, best)
    if json is not None:
        write_text(json, text(rows, best))
        console.print(f"wrote {json}", markup=False)


def _show(rows: list[tuple[str, Timing]], best: Peaks) -> None:
    cells = [[name, _engine(one), *_figures(one, best)] for name, one in rows]
    heads = ["seconds", "fastest", "GFLOP/s", "of GEMM", "of FMA", "MB", "loss"]
    table(["workload", "engine", *heads], cells, right=2)
    fma = "no native kernels to measure it" if best.fma is None else f"{best.fma:.0f} GFLOP/s"
    console.print(f"Peak of {best.cores} cores in float32: GEMM {best.gemm:.0f} GFLOP/s, FMA {fma}.")
    for data in dict.fromkeys(one.data for _, one in rows):
        console.print(f"Data: {data}.", markup=False)
    console.print("Operations are counted densely: what pooling makes zero and is skipped counts as done.")


def _figures(one: Timing, best: Peaks) -> list[str]:
    return [
        *(f"{one.seconds:.2f}", f"{one.fastest:.2f}", f"{one.gflops:.0f}"),
        *(_share(one.gflops, best.gemm), _share(one.gflops, best.fma)),
        *(f"{one.megabytes:.0f}", f"{one.loss:.3f}"),
    ]


def _engine(one: Timing) -> str:
    where = one.choice.name + (f" x {one.workers}" if one.workers > 1 else "")
    return f"{where}, {one.choice.backend}"


def _share(gflops: float, peak: float | None) -> str:
    return "" if peak is None else f"{100 * gflops / peak:.0f} %"
