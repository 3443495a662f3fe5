"""What the models themselves show, read from the last checkpoint: features, class proxies, internals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedskew import build, tree
from fedskew.algorithm import Algorithm
from fedskew.data.dataset import Dataset
from fedskew.diagnostics import proxy_geometry
from fedskew.engines.feed import Feed
from fedskew.errors import FedskewError
from fedskew.parts.adversarial import GlobalRegularised, judge
from fedskew.report.figure import thin
from fedskew.report.gather import PARTITION, Seen
from fedskew.report.study import Study
from fedskew.store import checkpoint
from fedskew.store.checkpoint import Checkpoint
from fedskew.tree import State

EXAMPLES = 300
CLIENTS = 50
AXES = 12  # principal components kept for t-SNE


class Features(NamedTuple):
    """Test examples as the server's network sees them, along the principal axes of what it sees."""

    points: list[list[float]]  # [N, AXES], the first axis has deviation 1
    labels: list[int]
    explained: tuple[float, float]  # share of the variance on the two first axes


class Proxies(NamedTuple):
    """The rows of the last layer, one per class: their lengths and the distances between them."""

    server: list[float]  # [C]
    observed: list[float]  # [C], mean over clients that hold the class; nan if nobody does
    missing: list[float]
    between: tuple[
        float, float, float
    ]  # observed-observed, observed-missing, missing-missing; means over clients


class Peek(NamedTuple):
    """One run's last models."""

    features: Features | None
    proxies: Proxies | None
    weights: dict[str, list[float]]  # vectors that the server keeps
    internals: dict[str, list[float]]  # a number for each client


Peeks = dict[tuple[str, str], Peek]  # by the labels of setting and method


def dataset(run: Seen) -> Dataset:
    """The data of a run; raises a DataError where they are not at hand."""
    return build.experiment(run.config).dataset()


@torch.no_grad()
def peek(run: Seen, data: Dataset) -> Peek | None:
    """Looks into the last checkpoint; None if there is none."""
    found = checkpoint.load(run.place)
    if found is None:
        return None
    plan = build.experiment(run.config.changed({"split.file": str(run.place / PARTITION)}))
    federation = plan.federation(data, run.seed)
    algorithm = plan.algorithm(federation, run.seed)
    feed = Feed.of(algorithm, federation, plan.training)
    trainers = [client for client in federation.trainers if client in found.kept]
    clients = [trainers[i] for i in thin(len(trainers), CLIENTS)]
    kept = {client: found.kept[client] for client in clients}
    return Peek(
        _features(algorithm, feed, found) if algorithm.shared and len(feed.federation.data.test) else None,
        _proxies(algorithm, feed, found.server, kept),
        _vectors(found.server),
        _internals(algorithm, feed, found.server, kept),
    )


def _features(algorithm: Algorithm, feed: Feed, found: Checkpoint) -> Features:
    test = feed.federation.data.test
    chosen = torch.from_numpy(test[np.array(thin(len(test), EXAMPLES))])
    seen = algorithm.model.forward(algorithm.overall(found.server), feed.x[chosen], False).features
    points, explained = principal(seen.flatten(1).double())
    return Features(points.tolist(), feed.federation.data.y[chosen].tolist(), explained)


def principal(points: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """The points along their principal axes, in units of the first, and the share of variance of two axes."""
    centred = points - points.mean(0)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    # The sign of an axis is arbitrary; this one does not depend on the machine's linear algebra.
    signs = torch.sign(u.gather(0, u.abs().argmax(0, keepdim=True)))
    share = s.square() / s.square().sum().clamp(min=1e-300)
    scaled = (u * signs * s)[:, :AXES] / (s[0] / len(points) ** 0.5).clamp(min=1e-300)
    return scaled, (float(share[0]), float(share[1]) if len(share) > 1 else 0.0)


def _proxies(algorithm: Algorithm, feed: Feed, server: State, kept: dict[int, State]) -> Proxies | None:
    name, classes = algorithm.model.proxies, feed.federation.classes
    own = _rows(algorithm.overall(server)[name], classes)
    if own is None or not kept:
        return None
    lengths, present, between = [], [], []
    for client, state in kept.items():
        rows = _rows(algorithm.personal(server, state, feed.idle(client))[name], classes)
        held = feed.federation.counts[client] > 0
        if rows is not None:
            found = proxy_geometry(rows.double(), held)
            lengths.append(found.norms)
            present.append(held)
            between.append(torch.stack(found[1:]))
    norms, held = torch.stack(lengths), torch.stack(present)
    distances = torch.stack(between).nanmean(0).tolist()
    return Proxies(
        own.double().norm(dim=-1).tolist(),
        _masked_mean(norms, held),
        _masked_mean(norms, ~held),
        (distances[0], distances[1], distances[2]),
    )


def _rows(weight: Tensor, classes: int) -> Tensor | None:
    return weight.flatten(1) if weight.ndim > 1 and len(weight) == classes else None


def _masked_mean(values: Tensor, mask: Tensor) -> list[float]:
    means: list[float] = torch.where(mask, values, torch.nan).nanmean(0).tolist()
    return means


def _vectors(server: State) -> dict[str, list[float]]:
    return {
        f"{part}.{name}": value.tolist()
        for part, entries in server.items()
        if part != "shared"
        for name, value in entries.items()
        if value.ndim == 1 and name == "weights"
    }


def _internals(
    algorithm: Algorithm, feed: Feed, server: State, kept: dict[int, State]
) -> dict[str, list[float]]:
    told = [algorithm.tell(state, feed.idle(client)).tolist() for client, state in kept.items()]
    out = {f"client.{name}": [row[i] for row in told] for i, name in enumerate(algorithm.told)}
    for part in algorithm.method.parts:
        if isinstance(part, GlobalRegularised):
            out["discriminator accuracy"] = [
                _told_apart(part, algorithm, feed, server, client, state) for client, state in kept.items()
            ]
    return {name: values for name, values in out.items() if values}


def _told_apart(
    part: GlobalRegularised, algorithm: Algorithm, feed: Feed, server: State, client: int, kept: State
) -> float:
    """How often the client's discriminator tells global features from local ones; 0.5 is guessing."""
    x = feed.x[torch.from_numpy(feed.federation.partition.train[client])]
    forward, critic = algorithm.model.forward, tree.under(kept[part.name], "critic")
    local = algorithm.personal(server, kept, feed.idle(client), "local")
    real = judge(critic, forward(algorithm.overall(server), x, False).features) > 0
    made = judge(critic, forward(local, x, False).features) <= 0
    return float(torch.cat([real, made]).double().mean())


def look_into(study: Study) -> tuple[Peeks, list[str]]:
    """The first seed of every method, and why one is left out."""
    peeks: Peeks = {}
    notes: list[str] = []
    for setting in study.settings:
        try:
            data = dataset(setting.first)
        except FedskewError as error:
            notes.append(f"Models could not be looked into: {error}")
            continue
        for arm in setting.arms:
            try:
                found = peek(arm.runs[0], data)
            except FedskewError as error:
                notes.append(f"{arm.label}: its model could not be looked into: {error}")
                continue
            if found is not None:
                peeks[setting.label, arm.label] = found
    return peeks, notes
