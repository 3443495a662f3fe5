"""A figure as data, and two ways to draw it: a page (plotly) and PDF (matplotlib, the extra `paper`)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedskew.errors import ConfigError, DiskError

DASHES = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
}  # by turn through the colours: plotly's and matplotlib's names
_HUES = ("#0072b2", "#d55e00", "#2e9e5b", "#5b1fa8", "#111111", "#99004d", "#3ba0c9", "#6b4a1b")
COLOURS = (*_HUES, "#7f7f7f", "#b8860b")


class Series(NamedTuple):
    """Points under one name; `spread` are bars around them, `size` areas of bubbles, `written` is told of each."""

    name: str
    x: Sequence[Any]
    y: Sequence[float | None]
    kind: Literal["line", "bar", "points"] = "line"
    spread: Sequence[float] = ()
    size: Sequence[float] = ()
    second: bool = False  # on the axis at the right
    written: Sequence[str] = ()


class Panel(NamedTuple):
    """One pair of axes; `heat` is a matrix instead of series."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...] = ()
    heat: Sequence[Sequence[float | None]] = ()
    right: str = ""  # of a second axis, or of a matrix's colours
    square: bool = False  # both axes have one scale, so that angles are seen

    @property
    def double(self) -> bool:
        """Whether some series need the axis at the right."""
        return any(one.second for one in self.series)

    @property
    def written(self) -> int:
        """How many bars beside each other say their number."""
        return sum(len(one.written) for one in self.series if one.kind == "bar")

    @property
    def upright(self) -> bool:
        """Whether these numbers need less room."""
        return self.written > _LYING


class Chart(NamedTuple):
    """A figure of one or more panels."""

    title: str
    panels: tuple[Panel, ...]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of panels."""
        panels = len(self.panels)
        pairs = panels > _BESIDE and panels % 2 == 0 and panels % _BESIDE
        columns = 2 if pairs else min(panels, _BESIDE)
        return -(-panels // columns), columns

    @property
    def colours(self) -> str:
        """What the colours of its matrices stand for."""
        return next((panel.right for panel in self.panels if panel.heat), "")

    @property
    def below(self) -> bool:
        """Whether its legend is short enough to stand below, where a phone has room for it."""
        return 1 < len(self.names) <= _SHORT

    @property
    def names(self) -> list[str]:
        """All series of its legend."""
        return list(dict.fromkeys(one.name for panel in self.panels for one in panel.series))


_BESIDE = 3  # panels in a row
_SHORT, _LEGEND = 6, 70  # names in a legend below the panels, and its pixels on a phone
_BAR = 22  # pixels for a bar whose number can be read
_LYING = 12  # bars on which a number can lie
_HEIGHT, _BETWEEN = 250, 100  # pixels of a panel and of what is written under and over it
_WIDE = (
    '<div style="overflow-x:auto"><div style="min-width:{width}px">{figure}</div></div>'  # phones scroll it
)


_HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<title>{title}</title><body style="font-family:sans-serif"><h1 style="font-size:1.3rem">{title}</h1>'
)


def page(title: str, charts: Sequence[Chart], path: Path) -> None:
    """All charts on one page that opens from disk."""
    import plotly.io as pio

    parts = [
        _WIDE.format(
            width=max(280, *(_BAR * panel.written for panel in chart.panels)) * chart.grid[1]
            + (80 if chart.below else 180),
            figure=pio.to_html(plotly(chart), full_html=False, include_plotlyjs=number == 0),
        )
        for number, chart in enumerate(charts)
    ]
    head = _HEAD.format(title=escape(title))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([head, *parts]), encoding="utf-8")
    except OSError as error:
        raise DiskError(f"{path}: cannot be written: {error.strerror}.") from error


def plotly(chart: Chart) -> Any:
    """The chart as a plotly figure, a few panels in a row."""
    from plotly.subplots import make_subplots

    (rows, columns), names = chart.grid, chart.names
    blank = [None] * (rows * columns - len(chart.panels))
    specs = [*({"secondary_y": panel.double} for panel in chart.panels), *blank]
    height = max(rows * (_HEIGHT + _BETWEEN) - _BETWEEN, 30 * len(names))  # a legend that shows everybody
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[panel.title for panel in chart.panels],
        specs=[specs[row * columns : (row + 1) * columns] for row in range(rows)],
        horizontal_spacing=(0.45 if any(panel.double for panel in chart.panels) else 0.2) / columns,
        vertical_spacing=_BETWEEN / height if rows > 1 else 0,
    )
    shown: set[str] = set()
    for number, panel in enumerate(chart.panels):
        row, column = divmod(number, columns)
        place = {"row": row + 1, "col": column + 1}
        for trace, second in _traces(panel, names, shown):
            figure.add_trace(trace, **place, secondary_y=second if panel.double else None)
        figure.update_xaxes(title_text=panel.x, **place)
        figure.update_yaxes(title_text=panel.y, **place, secondary_y=False)
        if panel.square:
            figure.update_yaxes(scaleanchor=figure.data[-1].xaxis, **place)
        if panel.heat:
            figure.update_xaxes(dtick=1, **place)
            figure.update_yaxes(dtick=1, **place)
        if panel.double:
            beside = {"showgrid": False, "rangemode": "tozero", "tickmode": "auto"}
            figure.update_yaxes(title_text=panel.right, **place, secondary_y=True, **beside)
    figure.update_annotations(font_size=13)
    figure.update_layout(
        title=chart.title, template="plotly_white", barmode="group", showlegend=len(names) > 1
    )
    figure.update_layout(coloraxis={"colorscale": "Viridis", "colorbar": {"title": chart.colours}})
    if chart.below:
        where = {"yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
        figure.update_layout(legend={"orientation": "h", **where})
        height += _LEGEND
    figure.update_layout(height=height + 190, margin={"t": 110, "b": 80 + _LEGEND * chart.below, "l": 70})
    return figure


def _traces(panel: Panel, names: Sequence[str], shown: set[str]) -> list[tuple[Any, bool]]:
    import plotly.graph_objects as go

    out: list[tuple[Any, bool]] = []
    if panel.heat:
        out.append((go.Heatmap(z=panel.heat, coloraxis="coloraxis"), False))
    for one in panel.series:
        colour, dash = _look(one.name, names)
        common: dict[str, Any] = {
            "name": one.name,
            "legendgroup": one.name,
            "showlegend": one.name not in shown,
        }
        common |= {"x": list(one.x), "y": list(one.y)}
        shown.add(one.name)
        around = {"type": "data", "array": list(one.spread)} if one.spread else None
        if one.kind == "bar":
            common |= {"text": list(one.written) or None, "textangle": -90 * panel.upright}
            common |= {"textposition": "auto", "insidetextanchor": "middle"}  # clear of the spread
            out.append((go.Bar(**common, marker={"color": colour}, error_y=around), one.second))
            continue
        common |= {"text": list(one.written) or None}
        marker = {"color": colour, **({"size": list(one.size)} if one.size else {})}
        mode = "markers" if one.kind == "points" else "lines"
        line = {"dash": dash}
        out.append((go.Scatter(**common, mode=mode, marker=marker, line=line, error_y=around), one.second))
    return out


def _look(name: str, names: Sequence[str]) -> tuple[str, str]:
    """(colour, dash) of a series, no two alike among the first two dozen."""
    turn, place = divmod(names.index(name), len(COLOURS))
    return COLOURS[place], list(DASHES)[turn % len(DASHES)]


def pdf(chart: Chart, path: Path) -> None:
    """The chart as a PDF file."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ConfigError("PDF figures are drawn by matplotlib: pip install 'fedskew[paper]'.") from error
    mpl.use("pdf")
    from matplotlib.figure import Figure

    rows, columns = chart.grid
    figure = Figure(figsize=(max(6.4, 4.2 * columns), 3.4 * rows), layout="constrained")
    figure.suptitle(chart.title, fontsize=10)
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    drawn: dict[str, Any] = {}
    for axes, panel in zip(places, chart.panels, strict=False):
        drawn |= _axes(axes, panel, chart.names)
    _same_colours(figure, chart.colours)
    if len(drawn) > 1:
        figure.legend(drawn.values(), drawn.keys(), loc="outside right center", fontsize=7)
    for empty in places[len(chart.panels) :]:
        empty.remove()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except OSError as error:
        raise DiskError(f"{path}: cannot be written: {error.strerror}.") from error


def _same_colours(figure: Any, label: str) -> None:
    """One scale for all matrices of a figure."""
    images = [image for axes in figure.axes for image in axes.images]
    values = [value for image in images for value in image.get_array().compressed()]
    for image in images:
        image.set_clim(min(values), max(values))
    if images:
        figure.colorbar(images[0], ax=figure.axes, label=label)


def _axes(axes: Any, panel: Panel, names: Sequence[str]) -> dict[str, Any]:
    """Draws the panel; what stands for each series."""
    axes.set_title(panel.title, fontsize=8)
    axes.set(xlabel=panel.x, ylabel=panel.y)
    if panel.square:
        axes.set_aspect("equal", adjustable="datalim")
    if panel.heat:
        axes.imshow([[float("nan") if v is None else v for v in row] for row in panel.heat])
    bars = [one for one in panel.series if one.kind == "bar"]
    places = list(dict.fromkeys(value for one in bars for value in one.x))
    beside = axes.twinx() if panel.double else axes
    for one in panel.series:
        place = beside if one.second else axes
        colour, dash = _look(one.name, names)
        y = [float("nan") if value is None else value for value in one.y]
        if one.kind == "bar":
            width = 0.8 / len(bars)
            shift = bars.index(one) * width - 0.4 + width / 2
            spread = list(one.spread) or None
            x = [places.index(value) + shift for value in one.x]
            boxes = place.bar(x, y, width, color=colour, label=one.name, yerr=spread)
            if one.written:
                place.bar_label(boxes, one.written, fontsize=6, rotation=90 * panel.upright, padding=1)
                place.margins(y=0.2 if panel.upright else 0.1)
            axes.set_xticks(range(len(places)), [str(value) for value in places], rotation=45, fontsize=7)
        elif one.kind == "points":
            place.scatter(one.x, y, s=[v**2 for v in one.size] or 8, color=colour, label=one.name)
        else:
            place.plot(one.x, y, color=colour, linestyle=DASHES[dash], label=one.name)
    if panel.double:
        beside.set_ylabel(panel.right)
        beside.set_ylim(bottom=0)
    return {
        name: drawn
        for one in (axes, beside)
        for drawn, name in zip(*one.get_legend_handles_labels(), strict=True)
    }
