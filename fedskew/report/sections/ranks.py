"""Mean ranks over many pairs: the critical-difference diagram."""

from __future__ import annotations

from fedskew.report import answer
from fedskew.report.figure import Control, Figure, Key, View, axes, choose, single, tidy
from fedskew.report.significance import Ranking
from fedskew.report.study import Study
from fedskew.results import HEADLINES


def figure(study: Study, keys: dict[str, Key]) -> Figure | None:
    """The diagram; None where there are fewer than three methods or six pairs."""
    found = {metric: answer.ranking(study, metric) for metric in HEADLINES}
    known = {metric: ranking for metric, ranking in found.items() if ranking is not None}
    if not known:
        return None
    control = Control("metric", "Measure", "choice", tuple((m, HEADLINES[m]) for m in known))
    return Figure(
        "ranks",
        "Critical-difference diagram",
        "Methods at their mean rank over all seeds and settings (left is best); a bar joins methods whose "
        "ranks "
        "differ by less than Nemenyi's critical difference, which these pairs do not tell apart.",
        choose({metric: single(_view(ranking, keys)) for metric, ranking in known.items()}),
        (control,),
        height=150 + 30 * len(study.labels),
    )


def _view(ranking: Ranking, keys: dict[str, Key]) -> View:
    names = sorted(ranking.ranks, key=lambda name: -ranking.ranks[name])
    data: list[View] = []
    for row in ranking.alike():
        level = [names.index(name) for name in row]
        ends = [tidy(ranking.ranks[row[0]]), tidy(ranking.ranks[row[-1]])]
        bar = {"color": "#666666", "width": 7}
        place = {"x": ends, "y": [sum(level) / len(level) + 0.5] * 2, "mode": "lines"}
        data.append({"type": "scatter", **place, "line": bar, "hoverinfo": "skip"})
    for height, name in enumerate(names):
        mark = {"symbol": keys[name].symbol, "color": keys[name].colour, "size": 11}
        place = {"x": [tidy(ranking.ranks[name])], "y": [height], "mode": "markers"}
        data.append({"type": "scatter", **place, "marker": mark, "name": name})
    ticks = {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "range": [-0.7, len(names)],
    }
    title = f"mean rank over {ranking.pairs} pairs (critical difference {ranking.critical:.2f})"
    return {"data": data, "layout": axes(title, "", {"rangemode": "normal"}, ticks)}
