"""Which class is taken for which."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedskew.report import series
from fedskew.report.figure import Control, Figure, View, axes, choose, single, tidy
from fedskew.report.gather import Seen
from fedskew.report.study import Setting


def figure(setting: Setting) -> Figure | None:
    """The matrix of every method; None before the last round."""
    views = {}
    for arm in setting.arms:
        found = [_matrix(run) for run in arm.runs]
        known = [matrix for matrix in found if matrix is not None]
        if known:
            views[arm.label] = single(_view(setting, np.sum(known, axis=0)))
    if not views:
        return None
    size = len(setting.class_names(10))
    return Figure(
        "confusion",
        "Confusion matrix of the global model",
        "Rows are the truth, columns the answer, each row adds up to 100 %: what lies off the diagonal is "
        "mistaken, "
        "and a dark column is a class that the model says too often. Last round, all seeds together.",
        choose(views),
        (Control("method", "Method", "list", tuple((label, label) for label in views)),),
        height=150 + 34 * min(max(size, 6), 16),
    )


def _matrix(run: Seen) -> NDArray[np.float64] | None:
    found = series.last_records(run).get("global.confusion")
    return None if found is None else np.array(found, dtype=np.float64)


def _view(setting: Setting, counts: NDArray[np.float64]) -> View:
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = setting.class_names(len(counts))
    rows = [[tidy(float(value)) for value in row] for row in share.round(1)]
    trace = {
        "type": "heatmap",
        "z": rows,
        "x": names,
        "y": names,
        "zmin": 0,
        "zmax": 100,
        "colorscale": [[0, "#ffffff"], [0.5, "#6baed6"], [1, "#08306b"]],
        "colorbar": {"title": {"text": "%"}, "thickness": 12},
        "hovertemplate": "truth %{y}, answer %{x}: %{z} %<extra></extra>",
    }
    if len(names) <= 12:
        trace |= {"texttemplate": "%{z:.0f}", "xgap": 1, "ygap": 1}
    return {
        "data": [trace],
        "layout": axes(
            "answer", "truth", {"type": "category"}, {"type": "category", "autorange": "reversed"}
        ),
    }
