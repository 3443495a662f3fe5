"""A partition to look at: client by class, in the terminal and as a picture."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from fedskew import naming
from fedskew.data import artefact
from fedskew.data.dataset import Dataset, Indices
from fedskew.data.partition import Partition, Scheme, counts, summary
from fedskew.errors import ConfigError, DiskError
from fedskew.experiment import Experiment

DOTS = " .:oO@"  # by the square root of a share, so that the area of a dot grows with it
SHOWN = 60
LONGEST = 24  # letters of a name


def lines(partition: Partition, data: Dataset) -> list[str]:
    """One line a client: a dot for each class, its size, and what the whole is like."""
    table = counts(data.y.numpy(), partition.train, len(data.classes))
    largest = max(1, int(table.max()))
    labels, classes = [_short(name) for name in _labels(partition, data)], _classes(data)
    first = max(8, *map(len, labels[:SHOWN]))
    width = min(3, max(map(len, classes)))
    heads = " ".join(name[:width].rjust(width) for name in classes)
    out = ["client".rjust(first) + "  " + heads + "   samples"]
    for client, row in enumerate(table[:SHOWN]):
        dots = " ".join(_dot(int(count), largest).rjust(width) for count in row)
        mark = " novel" if client in partition.novel else ""
        out.append(f"{labels[client]:>{first}}  {dots}  {int(row.sum()):8d}{mark}")
    if len(table) > SHOWN:
        out.append(f"     ... {len(table) - SHOWN} more clients")
    return [*out, "", *_whole(table), f"dots: {DOTS.strip()}  from few to {largest} samples"]


def _labels(partition: Partition, data: Dataset) -> list[str]:
    names = naming.names(data, partition)
    return [naming.label(names, client) for client in range(len(partition.train))]


def _classes(data: Dataset) -> list[str]:
    return [naming.printable(name) for name in data.classes]


def _whole(table: Indices) -> list[str]:
    found = summary(table)
    distinct = np.asarray(found.distinct)
    return [
        f"{len(table)} clients, {int(table.sum())} training samples, {min(table.sum(1))} to {max(table.sum(1))} each",
        f"labels per client: {distinct.min()} to {distinct.max()}; "
        f"{100 * found.missing:.0f} % of (client, class) pairs are missing",
        f"mean Jensen-Shannon distance from the whole: {found.distance:.2f} (0: all alike, 1: nothing in common)",
    ]


def _short(label: str) -> str:
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"


def _dot(count: int, largest: int) -> str:
    if not count:
        return " "
    return DOTS[1 + min(len(DOTS) - 2, int((count / largest) ** 0.5 * (len(DOTS) - 1)))]


def picture(partition: Partition, data: Dataset, path: Path) -> None:
    """The bubbles as a page that opens from disk."""
    import plotly.graph_objects as go

    table = counts(data.y.numpy(), partition.train, len(data.classes))
    # plotly.js reads a few tags in text, so none may be left.
    labels, classes = ([escape(name) for name in row] for row in (_labels(partition, data), _classes(data)))
    client, label = np.nonzero(table)
    sizes = 26 * np.sqrt(table[client, label] / table.max())
    hover = [f"client {labels[k]}: {table[k, c]} of {classes[c]}" for k, c in zip(client, label, strict=True)]
    columns = [labels[k] for k in client]
    marks = go.Scatter(
        x=columns, y=label, mode="markers", marker={"size": sizes, "color": "#0072B2"}, text=hover
    )
    figure = go.Figure(marks)
    figure.update_layout(
        title="Training samples by client and class (area: number of samples)",
        xaxis={"title": "client", "type": "category"},
        yaxis={"title": "class", "tickvals": list(range(len(classes))), "ticktext": classes},
        template="plotly_white",
    )
    try:
        figure.write_html(path, include_plotlyjs=True)
    except OSError as error:
        raise DiskError(f"{path}: cannot be written: {error.strerror}.") from error


def save(experiment: Experiment, partition: Partition, data: Dataset, seed: int, path: Path) -> None:
    """Writes the partition as an artefact that a run can take back."""
    if not isinstance(experiment.split, Scheme):
        raise ConfigError(
            "the configuration already takes its partition from a file; there is nothing to save."
        )
    artefact.save(path, partition, experiment.split, seed, data.y.numpy())
