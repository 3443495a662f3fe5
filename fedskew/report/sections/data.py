"""Who holds what: the skew itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedskew import naming
from fedskew.data.partition.measure import summary
from fedskew.report import table
from fedskew.report.figure import COLOURS, Control, Figure, View, axes, choose, single, thin
from fedskew.report.gather import Census
from fedskew.report.section import Section, section
from fedskew.report.study import Study
from fedskew.report.table import Table

BUBBLES = 200  # clients above which circles would overlap
ROW = 20  # pixels of height for a class
CELLS = 60_000  # of all heat maps together, to keep the page small


class Split(NamedTuple):
    """A distribution of the data that at least one run used."""

    label: str
    census: Census


def build(study: Study) -> Section:
    """The section on the data."""
    splits = _splits(study)
    intro = (
        "How the training examples of each class lie with the clients. "
        "The rarer a class at a client, the more local training pulls the model away from it."
    )
    if not splits:
        return section("data", "The skew", intro, notes=["These runs did not record who holds what."])
    figures = [_counts(splits), _sizes(splits), _classes(splits)]
    return section("data", "The skew", intro, figures, [_measures(splits)])


def _splits(study: Study) -> list[Split]:
    found: dict[Census, Split] = {}
    for setting in study.settings:
        for run in (run for arm in setting.arms for run in arm.runs):
            if run.census is not None and run.census not in found:
                where = f"{setting.label}, " if len(study.settings) > 1 else ""
                found[run.census] = Split(f"{where}seed {run.seed}", run.census)
    return list(found.values())


def _control(splits: list[Split]) -> tuple[Control, ...]:
    options = tuple((str(i), split.label) for i, split in enumerate(splits))
    return (Control("split", "Split", "list", options),) if len(splits) > 1 else ()


def _views(splits: list[Split], views: list[View]) -> dict[str, View]:
    if len(splits) == 1:
        return single(views[0])
    return choose({str(i): single(view) for i, view in enumerate(views)})


def _counts(splits: list[Split]) -> Figure:
    shown: list[Split] = []
    room = CELLS
    for split in splits:
        room -= len(split.census.train) * len(split.census.classes)
        if not shown or room >= 0:
            shown.append(split)
    circles = max(len(split.census.train) for split in shown) <= BUBBLES
    draw = _bubbles if circles else _heat
    how = (
        "A column per client, a row per class: the area of a circle is the number of training examples; "
        "no circle means that the client has never seen the class."
        if circles
        else "A column per client, a row per class: the darker, the more training examples; "
        "white means that the client has never seen the class."
    )
    rows = max(len(split.census.classes) for split in shown)
    views = _views(shown, [draw(split.census) for split in shown])
    return Figure(
        "counts", "Clients and classes", how, views, _control(shown), height=130 + max(8, min(rows, 40)) * ROW
    )


def _layout(census: Census) -> View:
    names = list(census.classes)
    ticks = {"type": "linear", "tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names}
    if len(names) > 40:
        kept = thin(len(names), 20)
        ticks |= {"tickvals": kept, "ticktext": [names[i] for i in kept]}
    # Every client has an example, so clients come first in their order, which is the one that categories keep.
    columns = {"type": "category"} if census.clients else {"rangemode": "normal"}
    return axes("client", "class", columns, {**ticks, "zeroline": False})


def _columns(census: Census) -> list[str] | list[int]:
    clients = range(len(census.train))
    return [naming.label(census.clients, k) for k in clients] if census.clients else list(clients)


def _bubbles(census: Census) -> View:
    table_ = np.array(census.train)
    client, label = np.nonzero(table_)
    count = table_[client, label]
    marker = {
        "size": count.tolist(),
        "sizemode": "area",
        "sizeref": float(2 * count.max() / min(ROW, max(6, 700 / len(table_))) ** 2),
        "sizemin": 2,
        "color": COLOURS[0],
        "line": {"width": 0},
        "opacity": 0.85,
    }
    said = "client %{x}, class %{customdata}: %{marker.size} examples<extra></extra>"
    names, columns = [census.classes[i] for i in label], _columns(census)
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [columns[k] for k in client],
        "y": label.tolist(),
        "customdata": names,
    }
    return {"data": [{**trace, "marker": marker, "hovertemplate": said}], "layout": _layout(census)}


def _heat(census: Census) -> View:
    counts = [list(column) for column in zip(*census.train, strict=True)]
    said = "client %{x}, class %{y}: %{z} examples<extra></extra>"
    bar = {"title": {"text": "examples"}, "thickness": 12}
    scale = [[0, "#ffffff"], [0.0001, "#d6e6f2"], [1, "#08306b"]]
    trace = {
        "type": "heatmap",
        "x": _columns(census),
        "z": counts,
        "zmin": 0,
        "colorscale": scale,
        "colorbar": bar,
    }
    return {"data": [{**trace, "hovertemplate": said}], "layout": _layout(census)}


def _sizes(splits: list[Split]) -> Figure:
    def view(census: Census) -> View:
        sizes = sorted((sum(row) for row in census.train), reverse=True)
        kept = thin(len(sizes), 400)
        trace = {
            "type": "bar",
            "x": [i + 1 for i in kept],
            "y": [sizes[i] for i in kept],
            "marker": {"color": COLOURS[0]},
        }
        return {"data": [trace], "layout": axes("clients, largest first", "training examples")}

    how = "Each bar is one client: the steeper the fall, the more unequal the clients are in size."
    views = _views(splits, [view(split.census) for split in splits])
    return Figure("sizes", "Examples per client", how, views, _control(splits), height=300, wide=False)


def _classes(splits: list[Split]) -> Figure:
    def view(census: Census) -> View:
        held = [sum(count > 0 for count in row) for row in census.train]
        numbers = list(range(1, len(census.classes) + 1))
        trace = {
            "type": "bar",
            "x": numbers,
            "y": [held.count(n) for n in numbers],
            "marker": {"color": COLOURS[0]},
        }
        return {
            "data": [trace],
            "layout": axes(
                "classes that a client holds", "clients", {"dtick": 1} if len(numbers) <= 20 else {}
            ),
        }

    how = "How many clients hold how many classes: the further left, the more a client never sees."
    views = _views(splits, [view(split.census) for split in splits])
    return Figure("held", "Classes per client", how, views, _control(splits), height=300, wide=False)


def _measures(splits: list[Split]) -> Table:
    rows = []
    for split in splits:
        counts = np.array(split.census.train)
        found, sizes = summary(counts), counts.sum(axis=1)
        rows.append(
            [
                table.text(split.label),
                table.number(len(counts), "{:.0f}"),
                table.number(len(split.census.novel), "{:.0f}"),
                table.number(found.distance, "{:.3f}"),
                table.percent(found.missing),
                table.number(float(np.mean(found.distinct)), "{:.1f}"),
                table.number(float(sizes.min()), "{:.0f}"),
                table.number(float(np.median(sizes)), "{:.0f}"),
                table.number(float(sizes.max()), "{:.0f}"),
            ]
        )
    columns = ["split", "clients", "never train", "JS distance", "missing %", "classes held"]
    return table.make(
        "skew",
        "How skewed it is",
        "JS distance: mean Jensen-Shannon distance of a client's label distribution from everyone's (0 the "
        "same, "
        "1 nothing in common). Missing: share of (client, class) pairs without an example.",
        [*columns, "fewest examples", "median", "most"],
        rows,
    )
