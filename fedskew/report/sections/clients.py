"""Client by client, what happened on the way, and what it cost."""

from __future__ import annotations

from fedskew.report import marks, table
from fedskew.report.answer import finding
from fedskew.report.figure import Control, Figure, Key, View, across, axes, choose, looks, single, tidy
from fedskew.report.gather import Seen
from fedskew.report.marks import ClientMarks
from fedskew.report.section import Section, named, numbered, section
from fedskew.report.sections import ledger
from fedskew.report.study import Arm, Setting, Study
from fedskew.report.table import Cell, Table

SHOWN = 500  # clients on the page; the CSV has all
NAMES = 6  # classes listed by name


def build(study: Study) -> Section:
    """The section on clients and cost."""
    keys = looks(study.labels)
    tables: list[Table | None] = []
    for setting in study.settings:
        tables += [_worst(setting, study), _all(setting, study)]
    tables += [ledger.events(study), *(ledger.cost(setting, study) for setting in study.settings)]
    intro = "A mean hides those for whom it does not work. Every client's own model on its own test set."
    return section("clients", "Clients and cost", intro, [across(study, lambda s: _spread(s, keys))], tables)


def _spread(setting: Setting, keys: dict[str, Key]) -> Figure | None:
    wanted = {"home": "own test set", "everywhere": "everyone's test set"}
    views = {name: single(_spread_view(setting, keys, name, said)) for name, said in wanted.items()}
    if not any(view[""]["data"] for view in views.values()):
        return None
    return Figure(
        "spread",
        "How clients fare",
        "Each dot is one client of one seed after the last evaluation; the box holds the middle half and "
        "its line "
        "the median. The longer the tail to the left, the less fair the method.",
        choose(views),
        (Control("where", "Tested on", "choice", tuple(wanted.items())),),
        height=120 + 46 * len(setting.arms),
    )


def _spread_view(setting: Setting, keys: dict[str, Key], name: str, said: str) -> View:
    data = []
    for arm in reversed(setting.arms):
        known, who = _dots(arm, name)
        if known:
            few = len(known) <= 1000
            look = {"color": keys[arm.label].colour, "size": 4, "opacity": 0.5}
            box = {
                "x": known,
                "boxpoints": "all" if few else "outliers",
                "text": who,
                "hovertemplate": "client %{text}: %{x} %<extra></extra>",
                "jitter": 0.5,
                "pointpos": 0,
                "marker": look,
            }
            data.append(
                {
                    "type": "box",
                    "name": arm.label,
                    **box,
                    "fillcolor": "rgba(0,0,0,0.04)",
                    "line": {"width": 1.5},
                }
            )
    return {"data": data, "layout": axes(f"accuracy on {said} (%)", "", {}, {"type": "category"})}


def _dots(arm: Arm, name: str) -> tuple[list[float], list[str]]:
    """Every client's accuracy in per cent under every seed, and who it is."""
    found = [(run, last) for run in arm.runs if (last := marks.last(run)) is not None]
    dots = [
        (tidy(value, 100), run.label(client))
        for run, last in found
        for client, value in zip(last.clients, last.home if name == "home" else last.everywhere, strict=True)
    ]
    known = [(value, who) for value, who in dots if value is not None]
    return [value for value, _ in known], [who for _, who in known]


def _marked(arm: Arm, seed: int) -> dict[int, tuple[float | None, float | None]]:
    found: ClientMarks | None = next((marks.last(run) for run in arm.runs if run.seed == seed), None)
    return (
        {}
        if found is None
        else dict(zip(found.clients, zip(found.home, found.everywhere, strict=True), strict=True))
    )


def _all(setting: Setting, study: Study) -> Table | None:
    run = setting.first
    found = {arm.label: _marked(arm, run.seed) for arm in setting.arms}
    clients = sorted({client for scores in found.values() for client in scores})
    if not clients:
        return None
    rows = []
    for client in clients:
        own = [scores.get(client, (None, None))[0] for scores in found.values()]
        mean = marks.mean(own)
        rows.append(
            (2.0 if mean is None else mean, [*_who(run, client), *(table.percent(value) for value in own)])
        )
    ordered = [row for _, row in sorted(rows, key=lambda pair: pair[0])]
    made = table.make(
        numbered(study, setting, "all-clients"),
        named(study, setting, f"All clients (seed {run.seed})"),
        "Per cent on the client's own test set after the last evaluation, by method; press a heading to "
        "sort. "
        + (f"The {SHOWN} with the lowest mean are shown, the CSV has all." if len(ordered) > SHOWN else ""),
        ["client", "examples", "classes", *found],
        ordered,
    )
    return made._replace(hidden=max(0, len(ordered) - SHOWN))


def _who(run: Seen, client: int) -> list[Cell]:
    if run.census is None:
        return [_name(run, client), Cell("–"), Cell("–")]
    counts = run.census.train[client]
    held = sum(count > 0 for count in counts)
    return [_name(run, client), table.number(sum(counts), "{:.0f}"), table.number(held, "{:.0f}")]


def _name(run: Seen, client: int) -> Cell:
    named = run.census is not None and run.census.clients
    return table.text(run.label(client)) if named else table.number(client, "{:.0f}")


def _worst(setting: Setting, study: Study) -> Table | None:
    best = finding(setting, "personal.accuracy")
    if best is None:
        return None
    arm = next(arm for arm in setting.arms if arm.label == best.best)
    run = arm.runs[0]
    scores = [
        (home, client, whole) for client, (home, whole) in _marked(arm, run.seed).items() if home is not None
    ]
    rows = [
        [*_who(run, client)[:2], table.text(_held(run, client)), table.percent(home), table.percent(whole)]
        for home, client, whole in sorted(scores)[:10]
    ]
    return table.make(
        numbered(study, setting, "worst"),
        named(study, setting, f"The ten clients that fare worst with {arm.label} (seed {run.seed})"),
        f"Per cent, under the method with the best personalised accuracy, {arm.label}.",
        ["client", "examples", "classes it holds", "own test set", "everyone's test set"],
        rows,
    )


def _held(run: Seen, client: int) -> str:
    if run.census is None:
        return "–"
    counts = run.census.train[client]
    names = [name for name, count in zip(run.census.classes, counts, strict=True) if count]
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return ", ".join(names[:NAMES]) + more
