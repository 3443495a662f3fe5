"""What goes on inside: features, class proxies, the numbers that a method adapts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from fedskew.report import series, table
from fedskew.report.figure import (
    COLOURS,
    SYMBOLS,
    Control,
    Figure,
    Key,
    View,
    across,
    axes,
    choose,
    looks,
    single,
    tidy,
)
from fedskew.report.section import Section, named, numbered, section
from fedskew.report.sections.curves import lines
from fedskew.report.study import Arm, Setting, Study
from fedskew.report.table import Table

if TYPE_CHECKING:  # it imports torch, which a live page need not wait for
    from fedskew.report.models import Features, Peek, Peeks, Proxies

NAMED = 12  # classes that a legend can hold
ROWS = (
    Key("server", "#111111", "circle"),
    Key("clients that hold the class", "#0072b2"),
    Key("clients that miss it", "#d55e00", "diamond"),
)


def build(study: Study, peeks: Peeks, notes: Sequence[str]) -> Section:
    """The section on models."""
    keys = looks(study.labels)
    figures = [
        across(study, partial(_features, peeks)),
        across(study, partial(_proxies, peeks)),
        across(study, partial(_adapted, keys)),
        across(study, partial(_internals, peeks, keys)),
    ]
    tables = [_distances(peeks, setting, study) for setting in study.settings]
    intro = "From the last checkpoint of each method's first seed, and from what methods adapt on the way."
    return section("inside", "Inside the models", intro, figures, tables, notes)


def _known(peeks: Peeks, setting: Setting) -> dict[str, Peek]:
    found = {arm.label: peeks.get((setting.label, arm.label)) for arm in setting.arms}
    return {label: peek for label, peek in found.items() if peek is not None}


def _methods(labels: Sequence[str]) -> Control:
    return Control("method", "Method", "list", tuple((label, label) for label in labels))


def _features(peeks: Peeks, setting: Setting) -> Figure | None:
    found = {label: peek.features for label, peek in _known(peeks, setting).items() if peek.features}
    if not found:
        return None
    names = setting.class_names(1 + max(max(one.labels) for one in found.values()))
    keys = [Key(name, COLOURS[i % 8], SYMBOLS[(i + i // 8) % len(SYMBOLS)]) for i, name in enumerate(names)]
    return Figure(
        "features",
        "Test examples as the global network sees them",
        "Each mark is a test example at its features' two main directions (PCA); classes that form clouds "
        "of their "
        "own are easy for the last layer, classes that overlap are not. t-SNE keeps neighbours together "
        "instead.",
        choose({label: single(_features_view(one, keys)) for label, one in found.items()}),
        (_methods(list(found)),),
        tuple(keys) if len(keys) <= NAMED else (),
        height=460,
        action="tsne",
    )


def _features_view(found: Features, keys: list[Key]) -> View:
    data = []
    for label, key in enumerate(keys):
        rows = [
            [tidy(value) for value in point]
            for point, own in zip(found.points, found.labels, strict=True)
            if own == label
        ]
        if rows:
            mark = {"color": key.colour, "symbol": key.symbol, "size": 7, "opacity": 0.8}
            place = {"x": [row[0] for row in rows], "y": [row[1] for row in rows], "customdata": rows}
            trace = {"type": "scatter", "mode": "markers", **place, "marker": mark, "name": key.label}
            data.append(
                {**trace, "meta": key.label, "hovertemplate": "class %{fullData.name}<extra></extra>"}
            )
    first, second = (f"{100 * share:.0f} % of variance" for share in found.explained)
    return {"data": data, "layout": axes(f"first direction ({first})", f"second direction ({second})")}


def _proxies(peeks: Peeks, setting: Setting) -> Figure | None:
    found = {label: peek.proxies for label, peek in _known(peeks, setting).items() if peek.proxies}
    if not found:
        return None
    return Figure(
        "proxies",
        "Lengths of class proxies",
        "A proxy is a class's row in the last layer. Where clients that miss a class have shorter rows for "
        "it than "
        "clients that hold it, local training has pushed the class aside.",
        choose({label: single(_proxies_view(one, setting)) for label, one in found.items()}),
        (_methods(list(found)),),
        ROWS,
    )


def _proxies_view(found: Proxies, setting: Setting) -> View:
    names = setting.class_names(len(found.server))
    data = []
    for key, row in zip(ROWS, (found.server, found.observed, found.missing), strict=True):
        mark = {"color": key.colour, "symbol": key.symbol, "size": 9}
        place = {"x": names, "y": [tidy(value) for value in row], "mode": "markers"}
        data.append({"type": "scatter", **place, "marker": mark, "name": key.label, "meta": key.label})
    return {"data": data, "layout": axes("class", "length of the row", {"type": "category"})}


def _distances(peeks: Peeks, setting: Setting, study: Study) -> Table | None:
    known = {label: peek.proxies for label, peek in _known(peeks, setting).items() if peek.proxies}
    rows = [
        [table.text(label), *(table.number(value, "{:.3f}") for value in one.between)]
        for label, one in known.items()
    ]
    if not rows:
        return None
    return table.make(
        numbered(study, setting, "distances"),
        named(study, setting, "Distances between class proxies"),
        "Mean distance of two rows of a client's last layer, by whether the client holds their classes. "
        "Where missing "
        "classes lie closer together than observed ones, they have collapsed into one another.",
        ["method", "both observed", "observed and missing", "both missing"],
        rows,
    )


def _adapted(keys: dict[str, Key], setting: Setting) -> Figure | None:
    having = [arm for arm in setting.arms if _numbers(arm)]
    names = dict.fromkeys(name for arm in having for name in _numbers(arm))
    if not names:
        return None
    views = {
        name: single({"data": lines(setting, keys, name, scale=1.0), "layout": axes("round", _spoken(name))})
        for name in names
    }
    return Figure(
        "adapted",
        "What methods adapt",
        "A number that the server adjusts from round to round, or the mean of one that clients adjust, for the "
        "methods that have it.",
        choose(views),
        (Control("name", "Number", "list", tuple((name, _spoken(name)) for name in names)),),
        tuple(keys[arm.label] for arm in having),
        height=320,
    )


def _numbers(arm: Arm) -> list[str]:
    """The scalars that the server of this method keeps, and those that its clients tell."""
    return [key for key in series.last_records(arm.runs[0]) if key.startswith(("state.", "client."))]


def _spoken(name: str) -> str:
    """A number of a part by its last name; others have names of their own."""
    kind, _, rest = name.partition(".")
    part, _, entry = rest.partition(".")
    return f"{entry} ({part})" if kind in ("state", "client") else name


def _internals(peeks: Peeks, keys: dict[str, Key], setting: Setting) -> Figure | None:
    views: dict[str, list[View]] = {}
    for label, peek in _known(peeks, setting).items():
        for name, values in {**peek.internals, **peek.weights}.items():
            shown = {"type": "box", "x": [tidy(value) for value in values], "name": label, "boxpoints": "all"}
            look = {"marker": {"color": keys[label].colour, "size": 5}, "jitter": 0.5, "pointpos": 0}
            views.setdefault(_spoken(name), []).append({**shown, **look, "fillcolor": "rgba(0,0,0,0.04)"})
    if not views:
        return None
    return Figure(
        "internals",
        "What methods keep for each client",
        "Each dot is one client at the end: how much of its private model it kept (mu), how often its "
        "discriminator "
        "tells global features from local ones (0.5 is guessing), or the weight the server gives it.",
        choose(
            {
                name: single({"data": data, "layout": axes(name, "", {}, {"type": "category"})})
                for name, data in views.items()
            }
        ),
        (Control("name", "Number", "list", tuple((name, name) for name in views)),),
        height=260,
    )
