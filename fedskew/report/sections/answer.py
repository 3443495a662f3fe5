"""Which method, how much better, how sure."""

from __future__ import annotations

import math

from fedskew import stats
from fedskew.report import answer, table
from fedskew.report.answer import Against, Finding
from fedskew.report.figure import Control, Figure, Key, View, across, axes, choose, looks, single, tidy
from fedskew.report.section import Section, named, numbered, section
from fedskew.report.sections import ranks
from fedskew.report.significance import LEAST
from fedskew.report.study import Setting, Study
from fedskew.report.table import Table
from fedskew.results import HEADLINES


def build(study: Study) -> Section:
    """The first section; its sentences are made by `fedskew.report.answer`."""
    keys = looks(study.labels)
    figures = [
        across(study, lambda setting: _dots(setting, keys)),
        across(study, lambda setting: _differences(setting, keys)),
        ranks.figure(study, keys),
    ]
    tables = [made for s in study.settings for made in (_summary(s, study), _pairs(s, study))]
    return section("answer", "The answer", "", figures, tables)


def _summary(setting: Setting, study: Study) -> Table:
    results = setting.results
    best = {metric: results.best(metric) for metric in HEADLINES}
    shown = [metric for metric in HEADLINES if best[metric] is not None]
    rows = [
        [
            table.text(row.method),
            table.number(row.seeds, "{:.0f}"),
            *(table.spread(row.values[m], strong=best[m] == row.method) for m in shown),
        ]
        for row in sorted(
            results.summary(), key=lambda row: -_or_zero(row.values[shown[0]].mean) if shown else 0
        )
    ]
    return table.make(
        numbered(study, setting, "summary"),
        named(study, setting, "All methods"),
        "Per cent, mean of the last ten measured rounds ± standard deviation over seeds; the highest is "
        "bold.",
        ["method", "seeds", *(HEADLINES[metric] for metric in shown)],
        rows,
    )


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _pairs(setting: Setting, study: Study) -> Table | None:
    found = [one for one in answer.findings(setting) if one.against]
    if not found:
        return None
    tested = any(against.p is not None for one in found for against in one.against)
    columns = ["metric", "best", "compared with", "difference", "from", "to", "seeds won"]
    rows = [_pair(one, against, tested) for one in found for against in one.against]
    correction = (
        "p: Wilcoxon's signed-rank test, corrected by Holm for all comparisons of the metric."
        if tested
        else f"A test is given from {LEAST} common seeds on; with fewer it could not decide anything."
    )
    return table.make(
        numbered(study, setting, "differences"),
        named(study, setting, "The best against the others"),
        f"Points of per cent on the same seeds, with the 95 % t-interval of their mean. {correction}",
        [*columns, "p"] if tested else columns,
        rows,
    )


def _pair(one: Finding, against: Against, tested: bool) -> list[table.Cell]:
    found = against.difference
    bounds = [
        table.number(bound if math.isfinite(bound) else math.nan, "{:+.1f}")
        for bound in (found.low, found.high)
    ]
    cells = [
        table.text(one.name),
        table.text(one.best),
        table.text(against.other),
        table.number(found.mean, "{:+.1f}", strong=against.clear),
        *bounds,
        table.Cell(f"{against.wins} of {against.seeds}", against.wins),
    ]
    return [*cells, table.number(against.p, "{:.3f}")] if tested else cells


def _dots(setting: Setting, keys: dict[str, Key]) -> Figure | None:
    shown = [one.metric for one in answer.findings(setting)]
    control = Control("metric", "Measure", "choice", tuple((m, HEADLINES[m]) for m in shown))
    views = choose({metric: single(_dots_view(setting, metric, keys)) for metric in shown})
    if not views:
        return None
    return Figure(
        "result",
        "Every method, every seed",
        "Further right is better: the filled mark is the mean, the bar one standard deviation over seeds, "
        "each open mark one seed.",
        views,
        (control,),
        height=110 + 34 * len(setting.arms),
        wide=False,
    )


def _dots_view(setting: Setting, metric: str, keys: dict[str, Key]) -> View:
    data = []
    means = {arm.label: stats.summarise([r.mean_last(metric) for r in arm.results()]) for arm in setting.arms}
    order = sorted(
        (a for a in setting.arms if not math.isnan(means[a.label].mean)), key=lambda a: means[a.label].mean
    )
    for arm in order:
        key, mean = keys[arm.label], means[arm.label]
        seeds = [tidy(result.mean_last(metric), 100) for result in arm.results()]
        mark = {"symbol": f"{key.symbol}-open", "color": key.colour, "size": 8}
        open_marks = {"x": seeds, "y": [arm.label] * len(seeds), "mode": "markers", "marker": mark}
        filled = {"symbol": key.symbol, "color": key.colour, "size": 13}
        spread = {"type": "data", "array": [tidy(mean.std, 100) or 0], "color": key.colour}
        middle = {"x": [tidy(mean.mean, 100)], "y": [arm.label], "mode": "markers", "marker": filled}
        data.append(
            {
                "type": "scatter",
                "name": "seed",
                **open_marks,
                "hovertemplate": "%{x:.1f} %<extra>%{y}</extra>",
            }
        )
        data.append({"type": "scatter", "name": "mean", **middle, "error_x": spread})
    return {"data": data, "layout": axes(f"{HEADLINES[metric]} (%)", "", {}, {"type": "category"})}


def _differences(setting: Setting, keys: dict[str, Key]) -> Figure | None:
    found = [one for one in answer.findings(setting) if one.against and one.against[0].seeds > 1]
    if not found:
        return None
    control = Control("metric", "Measure", "choice", tuple((one.metric, one.name) for one in found))
    return Figure(
        "lead",
        "The lead of the best over each other method",
        "The mark is the mean lead on the same seeds, the bar its 95 % interval; a bar that crosses zero "
        "means that these seeds do not tell the two apart.",
        choose({one.metric: single(_lead_view(one, keys)) for one in found}),
        (control,),
        height=110 + 34 * len(setting.arms),
        wide=False,
    )


def _lead_view(one: Finding, keys: dict[str, Key]) -> View:
    data = []
    for against in reversed(one.against):
        key, found = keys[against.other], against.difference
        bar = {
            "type": "data",
            "symmetric": False,
            "array": [tidy(found.high - found.mean)],
            "arrayminus": [tidy(found.mean - found.low)],
            "color": key.colour,
        }
        mark = {"symbol": key.symbol, "color": key.colour, "size": 11}
        place = {"x": [tidy(found.mean)], "y": [against.other], "mode": "markers"}
        data.append({"type": "scatter", **place, "marker": mark, "error_x": bar, "name": against.other})
    line = {
        "type": "line",
        "x0": 0,
        "x1": 0,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"dash": "dot", "width": 1},
    }
    layout = axes(f"lead of {one.best} in {one.name} (points)", "", {}, {"type": "category"})
    return {"data": data, "layout": {**layout, "shapes": [line]}}
