"""What happened on the way, and what it cost."""

from __future__ import annotations

from typing import Any

from fedskew.report import marks, series, table
from fedskew.report.gather import Seen
from fedskew.report.section import named, numbered
from fedskew.report.study import Setting, Study
from fedskew.report.table import Cell, Table

REPEATS = 5  # events of one kind that are listed one by one
ROUTINE = frozenset({"round", "opened", "started", "finished"})
COLUMNS = ("method", "seed", "event", "detail", "at")


def events(study: Study) -> Table:
    """Everything that was not routine."""
    rows = [row for run in study.runs for row in (*_told(run), *_dropped(run))]
    how = (
        "Everything that was not routine: clients that dropped out, replies that were refused, resumed, "
        "failed and diverged runs, damage that was found."
    )
    return table.make(
        "events", "Events", how if rows else "Nothing out of the ordinary happened.", COLUMNS, rows
    )


def _told(run: Seen) -> list[list[Cell]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for event in run.events:
        if event["event"] not in ROUTINE or event.get("warnings"):
            found.setdefault(event["event"], []).append(event)
    rows = []
    for name, events in found.items():
        shown = events if len(events) <= REPEATS else events[:1]
        many = f"{len(events)} times, first " if len(shown) < len(events) else ""
        for event in shown:
            detail = {k: v for k, v in event.items() if k not in ("at", "event") and v not in (None, [], {})}
            if isinstance(who := detail.get("client"), int):
                detail["client"] = run.label(who)
            said = many + "; ".join(f"{key}: {value}" for key, value in detail.items())
            rows.append(
                [*_run_name(run), table.text(name), table.text(said), table.text(event.get("at", ""))]
            )
    return rows


def _run_name(run: Seen) -> list[Cell]:
    return [table.text(run.config.method.title), table.number(run.seed, "{:.0f}")]


def _dropped(run: Seen) -> list[list[Cell]]:
    joined = [len(record["participants"]) for record in run.records]
    usual = max(joined, default=0)
    short = [
        (record["round"] + 1, usual - count)
        for record, count in zip(run.records, joined, strict=True)
        if count < usual
    ]
    if not short:
        return []
    said = f"{sum(n for _, n in short)} replies missing in {len(short)} rounds, first in round {short[0][0]}"
    return [[*_run_name(run), table.text("dropped"), table.text(said), table.text("")]]


def cost(setting: Setting, study: Study) -> Table:
    """Seconds, bytes and memory of every method."""
    rows = []
    for arm in setting.arms:
        spent = [max(series.seconds(run).values(), default=None) for run in arm.runs]
        down, up = ([_sum(run, f"bytes.{way}") for run in arm.runs] for way in ("down", "up"))
        done = [run.rounds for run in arm.runs]
        peak = [
            max((e.get("peak_bytes", 0) for e in run.events if e["event"] == "round"), default=0)
            for run in arm.runs
        ]
        total, length = marks.mean(spent), marks.mean(done)
        rows.append(
            [
                table.text(arm.label),
                table.number(total, "{:.1f}"),
                table.number(total / length if total and length else None, "{:.3f}"),
                table.size(marks.mean(down)),
                table.size(marks.mean(up)),
                table.size(max(peak) or None),
            ]
        )
    return table.make(
        numbered(study, setting, "cost"),
        named(study, setting, "Cost of one run"),
        "Means over seeds; bytes are summed over all clients and rounds, memory is the most the process "
        "ever held.",
        ["method", "seconds", "seconds per round", "received by clients", "sent by clients", "peak memory"],
        rows,
    )


def _sum(run: Seen, metric: str) -> float:
    return sum(series.values(run, metric).values())
