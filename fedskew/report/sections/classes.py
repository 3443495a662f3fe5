"""What local training and aggregation do to each class."""

from __future__ import annotations

from collections.abc import Sequence

from fedskew import stats
from fedskew.report import marks, table
from fedskew.report.figure import Control, Figure, Key, View, across, axes, choose, looks, single, thin, tidy
from fedskew.report.section import Section, named, numbered, section
from fedskew.report.sections import confusion
from fedskew.report.sections.curves import legend, lines
from fedskew.report.study import Arm, Setting, Study
from fedskew.report.table import Table

FRAMES = 25  # rounds on the slider
BARS = 25  # classes above which bars are too thin
MOMENTS = (
    Key("before local training", "#8a8a8a", "cross"),
    Key("after local training", "#d55e00", "diamond"),
    Key("after aggregation", "#0072b2", "circle"),
)
GROUPS = (
    Key("majority", "#0b3c5d"),
    Key("minority", "#3095c0"),
    Key("missing", "#d55e00"),
)


def build(study: Study) -> Section:
    """The section on classes."""
    keys = looks(study.labels)
    intro = (
        "Label skew hurts class by class. A client's majority classes have more than an even share of its "
        "examples, "
        "its minority classes less, its missing classes none."
    )
    figures = [
        across(study, _per_class),
        across(study, _groups),
        across(study, confusion.figure),
        across(study, lambda setting: _drift(setting, keys)),
    ]
    return section("classes", "Classes", intro, figures, [_group_table(s, study) for s in study.settings])


def _moments(arm: Arm) -> dict[int, list[list[float | None]]]:
    """By round, the accuracy on each class at the three moments, averaged over seeds."""
    found: dict[int, list[list[list[float | None]]]] = {}
    for run in arm.runs:
        trained = marks.after_training(run)
        for record in run.records:
            number, after = record["round"], record.get("global.per_class")
            if after is not None and number in trained:
                unknown: list[float | None] = [None] * len(after)
                rows = [record.get("before.per_class", unknown), trained[number], after]
                found.setdefault(number, []).append(rows)
    return {
        number: [marks.column_means(moment) for moment in zip(*rows, strict=True)]
        for number, rows in found.items()
    }


def _per_class(setting: Setting) -> Figure | None:
    found = {arm.label: _moments(arm) for arm in setting.arms}
    numbers = sorted({number for moments in found.values() for number in moments})
    if not numbers:
        return None
    shown = [numbers[i] for i in thin(len(numbers), FRAMES)]
    views = {
        label: choose({str(n): single(_moments_view(setting, moments[n])) for n in shown if n in moments})
        for label, moments in found.items()
    }
    bars = len(next(iter(next(iter(filter(None, found.values()))).values()))[0]) <= BARS
    methods = Control("method", "Method", "list", tuple((arm.label, arm.label) for arm in setting.arms))
    slider = Control("round", "Round", "slider", tuple((str(n), str(n + 1)) for n in shown), len(shown) - 1)
    return Figure(
        "per-class",
        "Accuracy on each class, before and after",
        "Move the slider through the rounds: where the orange mark lies below the grey one, local training "
        "has "
        "forgotten the class; the blue one shows how much aggregation brings back.",
        choose(views),
        (methods, slider),
        tuple(key._replace(symbol="square") for key in MOMENTS) if bars else MOMENTS,
        height=380,
    )


def _moments_view(setting: Setting, rows: Sequence[Sequence[float | None]]) -> View:
    names = setting.class_names(len(rows[0]))
    data = []
    for key, row in zip(MOMENTS, rows, strict=True):
        y = [tidy(value, 100) for value in row]
        if not any(value is not None for value in y):
            continue
        trace = {"x": names, "y": y, "name": key.label, "meta": key.label}
        if len(names) <= BARS:
            data.append({"type": "bar", **trace, "marker": {"color": key.colour}})
        else:
            mark = {"color": key.colour, "symbol": key.symbol, "size": 7}
            data.append({"type": "scatter", "mode": "markers", **trace, "marker": mark})
    layout = axes("class", "accuracy (%)", {"type": "category"}, {"range": [0, 101]})
    return {"data": data, "layout": layout}


def _groups(setting: Setting) -> Figure | None:
    bars = [_group_bars(setting, key) for key in reversed(GROUPS)]
    data = [bar for bar in bars if any(value is not None for value in bar["x"])]
    if not data:
        return None
    across_all = "accuracy on everyone's test set (%)"
    return Figure(
        "groups",
        "Majority, minority and missing classes",
        "How well a client's own model does on the classes it has much of, little of, and none of; the last bar "
        "is what a client has learnt from the others. Whiskers: standard deviation over seeds.",
        single({"data": data, "layout": axes(across_all, "", {"range": [0, 101]}, {"type": "category"})}),
        (),
        tuple(key for key in GROUPS if any(bar["meta"] == key.label for bar in data)),
        height=120 + 42 * len(setting.arms),
    )


def _group_bars(setting: Setting, key: Key) -> View:
    arms = list(reversed(setting.arms))
    found = [stats.summarise(_last_values(arm, f"personal.{key.label}")) for arm in arms]
    spread = {"type": "data", "array": [tidy(mean.std, 100) or 0 for mean in found], "thickness": 1}
    place = {
        "x": [tidy(mean.mean, 100) for mean in found],
        "y": [arm.label for arm in arms],
        "error_x": spread,
    }
    look = {"name": key.label, "meta": key.label, "marker": {"color": key.colour}}
    return {"type": "bar", "orientation": "h", **place, **look}


def _last_values(arm: Arm, metric: str) -> list[float]:
    return [result.mean_last(metric) for result in arm.results()]


def _group_table(setting: Setting, study: Study) -> Table | None:
    names = {
        "personal.majority": "majority",
        "personal.minority": "minority",
        "personal.missing": "missing",
        "personal.drift": "all classes",
        "personal.accuracy": "own test set",
        "personal.worst10": "worst 10 %",
    }
    rows = setting.results.summary(tuple(names))
    if not any(tidy(row.values[metric].mean) is not None for row in rows for metric in names):
        return None
    cells = [
        [table.text(row.method), *(table.spread(row.values[metric]) for metric in names)] for row in rows
    ]
    return table.make(
        numbered(study, setting, "kinds"),
        named(study, setting, "Personal models by kind of class"),
        "Per cent ± standard deviation over seeds, on everyone's test set; the last two columns on the "
        "clients' own.",
        ["method", *names.values()],
        cells,
    )


def _drift(setting: Setting, keys: dict[str, Key]) -> Figure | None:
    kept = lines(setting, keys, "personal.drift")
    if not kept:
        return None
    agree = lines(setting, keys, "update.cosine", scale=1.0)
    views = {
        "drift": single({"data": kept, "layout": axes("round", "accuracy on everyone's test set (%)")}),
        "cosine": single({"data": agree, "layout": axes("round", "mean cosine of two clients' updates")}),
    }
    shown = (("drift", "local models on everyone's test"), ("cosine", "agreement of updates"))
    options = tuple(option for option in shown if views[option[0]][""]["data"])
    return Figure(
        "drift",
        "Client drift",
        "How well models that were trained at one client still do for everyone, and whether clients pull "
        "the same "
        "way (1 the same direction, 0 unrelated, below 0 against each other): higher is less drift.",
        choose({name: views[name] for name, _ in options}),
        (Control("what", "Show", "choice", options),),
        legend(setting, keys),
        height=380,
    )
