"""A chart as data: every view of it is made here, the page only shows the one that its controls name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from fedskew.report.study import Setting, Study

View = dict[str, Any]  # {"data": traces, "layout": axes} as plotly.js takes them
POINTS = 200  # of a curve; more than a screen can tell apart

# Told apart with normal, protan and deutan sight, each at least 3:1 on white; a test measures both.
COLOURS = ("#0072b2", "#d55e00", "#2e9e5b", "#5b1fa8", "#111111", "#99004d", "#3095c0", "#6b4a1b")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star")


class Key(NamedTuple):
    """An entry of a legend: what a series looks like."""

    label: str
    colour: str
    symbol: str = "square"
    dash: str = ""  # none: marks without a line


class Control(NamedTuple):
    """A choice among views: a few side by side, many in a list, or an ordered row of them on a slider."""

    name: str
    label: str
    kind: Literal["choice", "list", "slider"]
    options: tuple[tuple[str, str], ...]  # (value, what is shown)
    start: int = 0


class Figure(NamedTuple):
    """A chart with its title, one sentence on how to read it, its controls and all of its views."""

    id: str
    title: str
    how: str
    views: Mapping[str, View]  # by the values of the controls, joined by '|'
    controls: tuple[Control, ...] = ()
    legend: tuple[Key, ...] = ()
    height: int = 380
    wide: bool = True  # takes the whole width of a large screen
    action: str = ""  # something more that the page can do with it


def looks(labels: Iterable[str]) -> dict[str, Key]:
    """A colour, a dash and a symbol for every label; no two are the same."""
    found = {}
    for i, label in enumerate(labels):
        turn = i // len(COLOURS)
        dash, symbol = DASHES[(i + turn) % len(DASHES)], SYMBOLS[(i + turn) % len(SYMBOLS)]
        found[label] = Key(label, COLOURS[i % len(COLOURS)], symbol, dash)
    return found


def single(view: View) -> dict[str, View]:
    """The views of a figure without controls."""
    return {"": view}


def choose(views: Mapping[str, Mapping[str, View]]) -> dict[str, View]:
    """The views of a figure with one more control in front."""
    return {
        "|".join(part for part in (value, key) if part): view
        for value, inner in views.items()
        for key, view in inner.items()
    }


def across(study: Study, build: Callable[[Setting], Figure | None]) -> Figure | None:
    """One figure for all settings, with a list to choose one where there are several."""
    built = [(str(i), s.label, build(s)) for i, s in enumerate(study.settings)]
    made = [(value, label, figure) for value, label, figure in built if figure is not None]
    if not made:
        return None
    first = made[0][2]
    if len(study.settings) == 1:
        return first
    control = Control("setting", "Setting", "list", tuple((value, label) for value, label, _ in made))
    views = choose({value: figure.views for value, _, figure in made})
    keys = {key.label: key for _, _, figure in made for key in figure.legend}
    return first._replace(
        views=views,
        controls=(control, *_merged([f.controls for _, _, f in made])),
        legend=tuple(keys.values()),
    )


def _merged(rows: Sequence[tuple[Control, ...]]) -> tuple[Control, ...]:
    """Controls of the same name offer what any of the figures offers."""
    found: dict[str, Control] = {}
    for control in (control for row in rows for control in row):
        known = found.get(control.name, control._replace(options=()))
        found[control.name] = known._replace(options=tuple(dict([*known.options, *control.options]).items()))
    return tuple(_in_order(control) if control.kind == "slider" else control for control in found.values())


def _in_order(slider: Control) -> Control:
    options = sorted(slider.options, key=lambda option: int(option[0]))
    return slider._replace(options=tuple(options), start=len(options) - 1)


def axes(x: str, y: str, x_more: View | None = None, y_more: View | None = None) -> View:
    """A layout with titled axes."""
    return {
        "xaxis": {"title": {"text": x}, **(x_more or {})},
        "yaxis": {"title": {"text": y}, **(y_more or {})},
    }


def tidy(value: float | None, scale: float = 1.0) -> float | None:
    """Four significant digits, which is what a chart can show; None where there is no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{scale * value:.4g}")


def thin(count: int, most: int = POINTS) -> list[int]:
    """Evenly spaced positions, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})
