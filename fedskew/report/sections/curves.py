"""How accuracy grows with rounds, bytes or seconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fedskew.report import series
from fedskew.report.figure import Control, Figure, Key, View, across, axes, choose, looks, single
from fedskew.report.gather import Seen
from fedskew.report.section import Section, section
from fedskew.report.series import Series
from fedskew.report.study import Setting, Study

METRICS = {
    "global.accuracy": "global",
    "personal.accuracy": "personalised",
    "global.macro_f1": "macro-F1",
    "personal.worst10": "worst 10 % of clients",
    "personal.missing": "classes never seen",
    "novel.accuracy": "clients never seen",
}
ALONG: dict[str, tuple[str, str, Callable[[Seen], Series]]] = {
    "rounds": ("rounds", "round", series.rounds),
    "bytes": (
        "bytes",
        "traffic of all clients, both ways (MB)",
        lambda run: _scaled(series.traffic(run), 1e-6),
    ),
    "seconds": ("seconds", "wall-clock time (s)", series.seconds),
}


def build(study: Study) -> Section:
    """The section of learning curves."""
    keys = looks(study.labels)
    intro = "The same curves against what they cost: rounds, bytes on the wire, or seconds on this machine."
    return section(
        "curves", "Learning curves", intro, [across(study, lambda s: _curves(s, keys)), _loss(study, keys)]
    )


def _scaled(found: Series, factor: float) -> Series:
    return {number: factor * value for number, value in found.items()}


def lines(
    setting: Setting, keys: dict[str, Key], metric: str, along: str = "rounds", scale: float = 100.0
) -> list[View]:
    """All methods' curves of one metric."""
    what, where = partial(series.values, metric=metric), ALONG[along][2]
    return [trace for arm in setting.arms for trace in series.curve(arm, keys[arm.label], what, where, scale)]


def legend(setting: Setting, keys: dict[str, Key]) -> tuple[Key, ...]:
    """The methods of a setting."""
    return tuple(keys[arm.label] for arm in setting.arms)


def _curves(setting: Setting, keys: dict[str, Key]) -> Figure | None:
    views: dict[str, dict[str, View]] = {}
    for metric, name in METRICS.items():
        drawn = {along: lines(setting, keys, metric, along) for along in ALONG}
        if any(drawn.values()):
            views[metric] = choose(
                {
                    along: single({"data": traces, "layout": axes(ALONG[along][1], f"accuracy, {name} (%)")})
                    for along, traces in drawn.items()
                }
            )
    for view in views.get("global.macro_f1", {}).values():
        view["layout"]["yaxis"]["title"]["text"] = "macro-F1 (%)"
    if not views:
        return None
    measure = Control("metric", "Measure", "choice", tuple((m, METRICS[m]) for m in views))
    against = Control("along", "Against", "choice", tuple((name, said[0]) for name, said in ALONG.items()))
    return Figure(
        "curves",
        "Accuracy over the run",
        "A line is the mean over seeds, its band one standard deviation; higher and further left is better.",
        choose(views),
        (measure, against),
        legend(setting, keys),
        height=440,
    )


def _loss(study: Study, keys: dict[str, Key]) -> Figure | None:
    def build_one(setting: Setting) -> Figure | None:
        traces = lines(setting, keys, "train.loss", scale=1.0)
        view = {"data": traces, "layout": axes("round", "mean training loss", {}, {"rangemode": "tozero"})}
        how = (
            "The objective that each method itself minimises, averaged over participants, so levels of "
            "different "
            "methods do not compare; a curve that rises again has a step size that is too large."
        )
        return (
            Figure("loss", "Training loss", how, single(view), (), legend(setting, keys), 320)
            if traces
            else None
        )

    return across(study, build_one)
