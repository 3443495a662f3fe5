"""What an experiment found: records per seed, summarised as last round and mean of the last ten."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Any

from fedskew import stats
from fedskew.errors import ConfigError
from fedskew.stats import Mean

HEADLINES = {
    "global.accuracy": "global accuracy",
    "personal.accuracy": "personalised accuracy",
    "global.macro_f1": "macro-F1",
    "personal.missing": "accuracy on classes never seen",
}


@dataclass(frozen=True)
class Result:
    """One method under one seed."""

    name: str
    method: str
    seed: int
    records: tuple[dict[str, Any], ...]

    def series(self, metric: str) -> list[float]:
        """The metric's values, in the rounds in which it was measured."""
        found = (record[metric] for record in self.records if metric in record)
        return [math.nan if value is None else float(value) for value in found]

    def last(self, metric: str) -> float:
        """The value of the last round in which it was measured."""
        series = self.series(metric)
        return series[-1] if series else math.nan

    def mean_last(self, metric: str, rounds: int = 10) -> float:
        """The mean over the last `rounds` rounds in which the metric was measured."""
        series = [value for value in self.series(metric)[-rounds:] if not math.isnan(value)]
        return math.fsum(series) / len(series) if series else math.nan


@dataclass(frozen=True)
class Row:
    """One method over all seeds."""

    method: str
    seeds: int
    values: dict[str, Mean]

    def text(self, metric: str) -> str:
        """Mean and standard deviation in per cent."""
        value = self.values[metric]
        if math.isnan(value.mean):
            return "-"
        spread = "" if math.isnan(value.std) else f" ± {100 * value.std:.1f}"
        return f"{100 * value.mean:.1f}{spread}"

    def plain(self) -> dict[str, object]:
        """The row as JSON takes it; a value that does not exist is null."""
        return {
            "method": self.method,
            "seeds": self.seeds,
            "values": {n: _plain(v) for n, v in self.values.items()},
        }


def _plain(value: Mean) -> dict[str, float | int | None]:
    return {key: None if math.isnan(number) else number for key, number in value._asdict().items()}


@dataclass(frozen=True)
class Results:
    """Many runs: methods by seeds."""

    runs: tuple[Result, ...]

    def __add__(self, other: Results) -> Results:
        mine = {(run.method, run.seed) for run in self.runs}
        for run in other.runs:
            if (run.method, run.seed) in mine:
                raise ConfigError(
                    f"both hold {run.method!r} with seed {run.seed}, so one would count twice. Give experiments "
                    "that differ names of their own: Experiment(name=...) or using(method, name=...)."
                )
        return Results(self.runs + other.runs)

    def methods(self) -> list[str]:
        """The methods in the order in which they were run."""
        return list(dict.fromkeys(run.method for run in self.runs))

    def of(self, method: str) -> list[Result]:
        """All seeds of a method."""
        return sorted((run for run in self.runs if run.method == method), key=lambda run: run.seed)

    def cautions(self) -> list[str]:
        """What must be known before global numbers are compared; nothing where all are of one model."""
        told = ", ".join(dict.fromkeys(run.method for run in self.runs if run.series("global.voters")))
        return (
            [f"{told}: no one model for all; global numbers are of all clients' models together."]
            if told
            else []
        )

    def common(self, metric: str) -> Results:
        """The runs of the seeds that all methods with a mean have; all runs where there is no such seed."""
        means = {row.method: row.values[metric].mean for row in self.summary((metric,))}
        seeds = {m: {run.seed for run in self.of(m)} for m, mean in means.items() if not math.isnan(mean)}
        shared = set.intersection(*seeds.values()) if seeds else set[int]()
        kept = [run for run in self.runs if run.seed in shared or run.method not in seeds]
        return Results(tuple(kept)) if shared else self

    def summary(self, metrics: tuple[str, ...] = tuple(HEADLINES), rounds: int = 10) -> list[Row]:
        """Mean and deviation over seeds of the mean of the last `rounds` rounds."""
        return [self._row(method, metrics, rounds) for method in self.methods()]

    def _row(self, method: str, metrics: tuple[str, ...], rounds: int) -> Row:
        runs = self.of(method)
        values = {name: stats.summarise([run.mean_last(name, rounds) for run in runs]) for name in metrics}
        return Row(method, len(runs), values)

    def best(self, metric: str) -> str | None:
        """The method with the highest mean."""
        rows = [row for row in self.summary((metric,)) if not math.isnan(row.values[metric].mean)]
        return max(rows, key=lambda row: row.values[metric].mean).method if rows else None

    def __str__(self) -> str:
        names = [HEADLINES[name] for name in HEADLINES]
        wide = [max(len(name), len("100.0 ± 10.0")) + 3 for name in names]
        lines = ["per cent".ljust(24) + "".join(name.rjust(w) for name, w in zip(names, wide, strict=True))]
        for row in self.summary():
            cells = (row.text(m).rjust(w) for m, w in zip(HEADLINES, wide, strict=True))
            lines.append(row.method.ljust(24) + "".join(cells))
        return "\n".join([*lines, *self.cautions()])

    def __repr__(self) -> str:
        return f"Results of {len(self.runs)} runs: {', '.join(self.methods())}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("method", *HEADLINES.values()))
        body = "".join(
            f"<tr><td>{html.escape(row.method)}</td>"
            + "".join(f"<td>{row.text(m)}</td>" for m in HEADLINES)
            + "</tr>"
            for row in self.summary()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
