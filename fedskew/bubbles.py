"""A partition to look at: client by class, in the terminal and as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedskew.data import artefact
from fedskew.data.dataset import Dataset
from fedskew.data.partition import Partition, Scheme, counts, summary
from fedskew.errors import ConfigError, DiskError
from fedskew.experiment import Experiment

DOTS = " .:oO@"  # by the square root of a share, so that the area of a dot grows with it
SHOWN = 60


def lines(partition: Partition, data: Dataset) -> list[str]:
    """One line a client: a dot for each class, its size, and what the whole is like."""
    table = counts(data.y.numpy(), partition.train, len(data.classes))
    largest = max(1, int(table.max()))
    width = max(len(name) for name in data.classes) if max(map(len, data.classes)) < 4 else 3
    head = (
        "client".rjust(8) + "  " + " ".join(name[:width].rjust(width) for name in data.classes) + "   samples"
    )
    out = [head]
    for client, row in enumerate(table[:SHOWN]):
        dots = " ".join(_dot(int(count), largest).rjust(width) for count in row)
        mark = " novel" if client in partition.novel else ""
        out.append(f"{client:8d}  {dots}  {int(row.sum()):8d}{mark}")
    if len(table) > SHOWN:
        out.append(f"     ... {len(table) - SHOWN} more clients")
    found = summary(table)
    distinct = np.asarray(found.distinct)
    out += [
        "",
        f"{len(table)} clients, {int(table.sum())} training samples, {min(table.sum(1))} to {max(table.sum(1))} each",
        f"labels per client: {distinct.min()} to {distinct.max()}; "
        f"{100 * found.missing:.0f} % of (client, class) pairs are missing",
        f"mean Jensen-Shannon distance from the whole: {found.distance:.2f} (0: all alike, 1: nothing in common)",
        f"dots: {DOTS.strip()}  from few to {largest} samples",
    ]
    return out


def _dot(count: int, largest: int) -> str:
    if not count:
        return " "
    return DOTS[1 + min(len(DOTS) - 2, int((count / largest) ** 0.5 * (len(DOTS) - 1)))]


def picture(partition: Partition, data: Dataset, path: Path) -> None:
    """The bubbles as a page that opens from disk."""
    import plotly.graph_objects as go

    table = counts(data.y.numpy(), partition.train, len(data.classes))
    client, label = np.nonzero(table)
    sizes = 26 * np.sqrt(table[client, label] / table.max())
    hover = [f"client {k}: {table[k, c]} of {data.classes[c]}" for k, c in zip(client, label, strict=True)]
    marks = go.Scatter(
        x=client, y=label, mode="markers", marker={"size": sizes, "color": "#0072B2"}, text=hover
    )
    figure = go.Figure(marks)
    figure.update_layout(
        title="Training samples by client and class (area: number of samples)",
        xaxis_title="client",
        yaxis={"title": "class", "tickvals": list(range(len(data.classes))), "ticktext": list(data.classes)},
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
