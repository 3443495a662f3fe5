"""Figures that look closely at one run a cell: clients, classes, features, bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fedskew.reproduce.chart import Panel, Series
from fedskew.reproduce.recipe import Recipe

Record = dict[str, Any]
ACCURACY = "accuracy, %"


def panels(kind: str, recipe: Recipe, details: dict[str, Record], options: Record) -> list[Panel]:
    """The panels of this kind for every cell that has what it needs."""
    out: list[Panel] = []
    largest = max(
        (max(map(max, one["census"]["train"])) for one in details.values() if "census" in one), default=0
    )
    options = {**options, "largest": largest}
    for row in recipe.rows:
        of_row: list[Panel] = []
        for column in recipe.columns:
            found = details.get(f"{row.name}.{column.name}")
            once = kind in (*DATA, *COMMON)
            if found is not None and not (of_row and once):
                title = (row.label or row.name) + ("" if once else f", {column.label or column.name}")
                quick = found.get("scale") == "quick" and kind not in DATA
                of_row += KINDS[kind](title + " (quick)" * quick, found, options)
        out += of_row
    return out


def _bubbles(title: str, found: Record, options: Record) -> list[Panel]:
    """Training samples by client and class (FedABC, Fig. 4; GRP-FED, Fig. 1b)."""
    census = found.get("census")
    if not census:
        return []
    table, largest = census["train"], options["largest"]
    # Class by class, since an axis of names has the order in which they come.
    columns = enumerate(zip(*table, strict=True))
    dots = [(k, c, count) for c, column in columns for k, count in enumerate(column) if count]
    sizes = [2 + 18 * math.sqrt(count / largest) for _, _, count in dots]
    names, told = [census["classes"][c] for _, c, _ in dots], [f"{count:,} examples" for _, _, count in dots]
    series = Series("examples", [k for k, _, _ in dots], names, "points", (), sizes, written=told)
    return [Panel(title, "client", f"class (largest: {largest:,} examples)", (series,))]


def _classes(title: str, found: Record, options: Record) -> list[Panel]:
    """Accuracy of some clients' models by class in a few rounds, with the client's examples (FedABC, Fig. 2)."""
    out = []
    for index, client in enumerate((found.get("clients") or [{"clients": []}])[-1]["clients"][:2]):
        names = found["census"]["classes"]
        series = [Series("examples", names, found["census"]["train"][client], "bar")]
        for record in found["clients"]:
            accuracy = _percent(record[f"{options['model']}.per_class"][index])
            series.append(Series(f"round {record['round'] + 1}", names, accuracy, second=True))
        out.append(Panel(f"{title}, client {client}", "class", "examples", tuple(series), right=ACCURACY))
    return out


def _before_after(title: str, found: Record, options: Record) -> list[Panel]:
    """Accuracy by class: the common model, after local training, after averaging (FedLC, Fig. 6)."""
    if "start" not in found:
        return []
    x = _numbered(found["start"])
    kinds = {"common model": "start", "after local training": "local", "after averaging": "aggregated"}
    return [
        Panel(
            title,
            "class",
            ACCURACY,
            tuple(Series(name, x, _percent(found[key]), "bar") for name, key in kinds.items()),
        )
    ]


def _local_classes(title: str, found: Record, options: Record) -> list[Panel]:
    """Examples and accuracy by class of five clients after local training (FedLC, Fig. 2)."""
    if "counts" not in found:
        return []
    out = []
    for number, (accuracy, counts) in enumerate(zip(found["clients"], found["counts"], strict=True)):
        x = _numbered(counts)
        both = (
            Series("examples", x, counts, "bar"),
            Series("accuracy", x, _percent(accuracy), second=True),
        )
        out.append(Panel(f"{title}, client {number}", "class", "examples", both, right=ACCURACY))
    return out


def _bounds(title: str, found: Record, options: Record) -> list[Panel]:
    """Deviation bounds between the classes of one client (FedLC, Definition 3 and Theorem 3)."""
    if "bound" not in found:
        return []
    kinds = zip(("plain", "calibrated"), ("bound", "calibrated_bound"), found["deviating"], strict=True)
    return [
        Panel(
            f"{title}, {name}",
            f"class r ({100 * share:.0f} % of pairs deviate)",
            f"class j of client {found['client']}",
            heat=found[key],
            right="bound",
        )
        for name, key, share in kinds
    ]


def _map(title: str, found: Record, options: Record) -> list[Panel]:
    """Features of a majority, a minority and a missing class (FedLC, Fig. 7)."""
    if "map" not in found:
        return []
    shown = ", ".join(f"{kind} {label}" for kind, label in found["shown"].items())
    return [
        Panel(title, f"client {found['client']}, classes: {shown}", "", _clouds(found["map"], found["kinds"]))
    ]


def _clouds(points: Sequence[Sequence[float]], names: Sequence[object]) -> tuple[Series, ...]:
    return tuple(
        Series(
            str(name),
            [point[0] for point, own in zip(points, names, strict=True) if own == name],
            [point[1] for point, own in zip(points, names, strict=True) if own == name],
            "points",
        )
        for name in dict.fromkeys(names)
    )


def _components(title: str, found: Record, options: Record) -> list[Panel]:
    """Accuracy of every binary component (FedOVA, Fig. 3)."""
    values = found.get("components")
    if not values:
        return []
    return [
        Panel(
            title,
            "class",
            ACCURACY,
            (Series("component", _numbered(values), _percent(values), "bar"),),
        )
    ]


def _plane(title: str, found: Record, options: Record) -> list[Panel]:
    """Features of two dimensions, and lines for proxies, the longest half as long as the features (MAP, Fig. 5)."""
    if "features" not in found:
        return []
    longest, farthest = (max(math.hypot(*row) for row in found[what]) for what in ("proxies", "features"))
    times = farthest / (2 * longest)
    arrows = tuple(
        Series(str(label) if seen else "missing class", [0, times * row[0]], [0, times * row[1]])
        for label, (row, seen) in enumerate(zip(found["proxies"], found["observed"], strict=True))
    )
    clouds = _clouds(found["features"], found["labels"])
    return [Panel(title, "feature 1", "feature 2", (*clouds, *arrows), square=True)]


def _client_map(title: str, found: Record, options: Record) -> list[Panel]:
    """Clients by their class shares (GRP-FED, Fig. 1a)."""
    points = found.get("map") or []
    series = Series("client", [p[0] for p in points], [p[1] for p in points], "points")
    return [Panel(title, "", "", (series,))] if points else []


def _client_f1(title: str, found: Record, options: Record) -> list[Panel]:
    """Macro-F1 of every client, at home and everywhere (GRP-FED, Fig. 1c)."""
    scores = found.get("f1") or {}
    series = tuple(Series(name, list(range(len(values))), values, "bar") for name, values in scores.items())
    return [Panel(title, "client", "macro-F1", series)] if series else []


def _two_clients(title: str, found: Record, options: Record) -> list[Panel]:
    """The clients nearest to and farthest from the global class shares (GRP-FED, Fig. 5)."""
    if not found.get("f1"):
        return []
    table = found["census"]["train"]
    whole = _shares([sum(column) for column in zip(*table, strict=True)])
    far = [sum(abs(a - b) for a, b in zip(_shares(row), whole, strict=True)) for row in table]
    chosen = {"like all": far.index(min(far)), "like none": far.index(max(far))}
    names = list(found["f1"])
    series = tuple(
        Series(who, names, [found["f1"][name][k] for name in names], "bar") for who, k in chosen.items()
    )
    return [Panel(title, "", "macro-F1", series)]


def _percent(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else 100 * value for value in values]


def _shares(counts: Sequence[float]) -> list[float]:
    return [count / sum(counts) for count in counts]


def _numbered(classes: Sequence[Any]) -> list[str]:
    """Names for an axis that shows every one of them."""
    return [str(number) for number in range(len(classes))]


KINDS: dict[str, Callable[[str, Record, Record], list[Panel]]] = {
    "bubbles": _bubbles,
    "classes": _classes,
    "before-after": _before_after,
    "local-classes": _local_classes,
    "bounds": _bounds,
    "map": _map,
    "components": _components,
    "plane": _plane,
    "client-map": _client_map,
    "client-f1": _client_f1,
    "two-clients": _two_clients,
}
DATA = ("bubbles", "client-map")  # the same for all methods of a row, however long their runs
COMMON = ("bounds",)  # of the model that all methods of a row begin with
