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
        "Methods at their mean rank over all seeds and settings (left is best); a bar below joins methods whose "
        "ranks "
        "differ by less than Nemenyi's critical difference, which these pairs do not tell apart.",
        choose({metric: single(_view(ranking, keys)) for metric, ranking in known.items()}),
        (control,),
        height=170 + 34 * len(study.labels),
    )


def _view(ranking: Ranking, keys: dict[str, Key]) -> View:
    names = sorted(ranking.ranks, key=lambda name: -ranking.ranks[name])
    rows = ranking.alike()
    data: list[View] = [_bar(row, -1 - level, ranking) for level, row in enumerate(rows)]
    lines = []
    for height, name in enumerate(names):
        rank = tidy(ranking.ranks[name])
        mark = {"symbol": keys[name].symbol, "color": keys[name].colour, "size": 11}
        place = {"x": [rank], "y": [height], "mode": "markers"}
        data.append({"type": "scatter", **place, "marker": mark, "name": name})
        drop = {"color": keys[name].colour, "dash": "dot", "width": 1}
        lines.append(
            {"type": "line", "x0": rank, "x1": rank, "y0": height, "y1": -0.7 - len(rows), "line": drop}
        )
    ticks = {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names, "zeroline": False}
    title = f"mean rank over {ranking.pairs} pairs (critical difference {ranking.critical:.2f})"
    layout = axes(title, "", {}, {**ticks, "range": [-0.7 - len(rows), len(names) - 0.4]})
    return {"data": data, "layout": {**layout, "shapes": lines}}


def _bar(row: tuple[str, ...], height: float, ranking: Ranking) -> View:
    """Joins the methods of a row from the first rank to the last."""
    ends = [tidy(ranking.ranks[row[0]]), tidy(ranking.ranks[row[-1]])]
    place = {"x": ends, "y": [height, height], "mode": "lines", "line": {"color": "#555555", "width": 8}}
    return {"type": "scatter", **place, "name": ", ".join(row), "hoverinfo": "name"}
