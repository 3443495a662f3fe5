"""What one local epoch does to a trained model (FedLC, Fig. 2, 6, 7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedskew import build, diagnostics, metrics
from fedskew.config import Config
from fedskew.errors import ConfigError
from fedskew.experiment import Session
from fedskew.reproduce import collect
from fedskew.reproduce.cells import Cell, folder, start
from fedskew.store import checkpoint
from fedskew.tree import State, Tree

Record = dict[str, Any]
TESTED = 2000  # examples of the global test set on which every client's model is tried
EACH = 120  # examples of a class in the map of features


class Finding(NamedTuple):
    """What a study says after a round, and what a picture needs; the last round's is kept."""

    record: Record
    details: Record


def one_epoch(cell: Cell, config: Config, place: Path) -> Iterator[Finding]:
    """Every client trains the same finished model once, with this cell's method, and they are averaged."""
    begun = start(cell)
    assert begun is not None, "the recipe was checked"
    common = _model(folder(begun, config.seeds[0], place.parents[2]))
    with build.experiment(config).session(config.seeds[0]) as session:
        algorithm = session.feed.algorithm
        server = {**algorithm.init(), "shared": common}
        everybody = session.feed.federation.trainers
        replies, cohort = session.engine.exchange(algorithm.message(server, 0), everybody, 0)
        if replies is None:
            raise ConfigError("no client answered, so there is nothing to compare.")
        models = [{n: v[k] for n, v in replies.shared.items()} for k in range(len(everybody))]
        yield _found(session, server, models, algorithm.step(server, replies, cohort))


def _model(run: Path) -> Tree:
    """The server's model at the end of a run."""
    state = collect.outcome(run).state
    point = checkpoint.load(run) if state == "done" else None
    if point is None:
        raise ConfigError(
            f"{run}: there is no finished model to begin with, as the run is '{state}'. "
            "One that is only begun is finished by the same command, or by whoever is at work on it."
        )
    return point.server["shared"]


def _found(session: Session, server: State, models: list[Tree], after: State) -> Finding:
    algorithm, counts = session.feed.algorithm, session.feed.federation.counts
    local = torch.stack([_confusion(session, model) for model in models])
    begin, end = (_confusion(session, algorithm.overall(state)) for state in (server, after))
    groups = metrics.group_accuracy(local, counts)
    record = {f"local.{name}": metrics.mean_over_clients(value) for name, value in groups._asdict().items()}
    record |= {"local.accuracy": metrics.pooled(local), "start.accuracy": metrics.accuracy(begin)}
    record["aggregated.accuracy"] = metrics.accuracy(end)
    details = {
        "start": metrics.per_class(begin).tolist(),
        "local": metrics.per_class(local).nanmean(0).tolist(),
        "aggregated": metrics.per_class(end).tolist(),
        "clients": metrics.per_class(local[:5]).tolist(),
        "counts": counts[:5].tolist(),
        **_one_client(session, server, models),
    }
    return Finding({key: float(value) for key, value in record.items()}, details)


def _confusion(session: Session, params: Tree) -> Tensor:
    data = session.feed.federation.data
    chosen = torch.from_numpy(data.test[:: max(1, len(data.test) // TESTED)])
    logits = session.feed.algorithm.predict(params, session.feed.x[chosen])
    return metrics.confusion(metrics.predict(logits), data.y[chosen], len(data.classes))


def _one_client(session: Session, server: State, models: list[Tree]) -> Record:
    """A map of features and the deviation bounds of the first client with classes of all three kinds."""
    counts = session.feed.federation.counts
    kinds = metrics.groups(counts)
    whole = torch.stack([kind.any(-1) for kind in kinds]).all(0).nonzero()[:, 0].tolist()
    if not whole:
        return {}
    client = whole[0]
    own = counts[client]
    least = torch.where(kinds.minority[client], own, own.max() + 1).argmin()
    shown = {"majority": own.argmax(), "minority": least, "missing": (own == 0).nonzero()[0, 0]}
    chosen = {kind: int(label) for kind, label in shown.items()}
    return {"client": client, **_map(session, models[client], chosen), **_bounds(session, server, client)}


def _map(session: Session, params: Tree, chosen: dict[str, int]) -> Record:
    from sklearn.manifold import TSNE

    data = session.feed.federation.data
    test = torch.from_numpy(data.test)
    rows = [test[data.y[test] == label][:EACH] for label in chosen.values()]
    with torch.no_grad():
        features = session.feed.algorithm.model.forward(
            params, session.feed.x[torch.cat(rows)], False
        ).features
    points = TSNE(2, random_state=0, init="pca", perplexity=30).fit_transform(features.numpy())
    kinds = [kind for kind, row in zip(chosen, rows, strict=True) for _ in row]
    return {"map": [[round(float(v), 3) for v in point] for point in points], "kinds": kinds, "shown": chosen}


def _bounds(session: Session, server: State, client: int) -> Record:
    feed = session.feed
    own = torch.from_numpy(feed.federation.partition.train[client])[:TESTED]
    with torch.no_grad():
        out = feed.algorithm.model.forward(feed.algorithm.overall(server), feed.x[own], False)
    labels, counts = feed.federation.data.y[own], feed.federation.counts[client]
    plain = diagnostics.deviation_bound(out.logits.softmax(-1), out.features, labels)
    calibrated = diagnostics.calibrated_deviation_bound(out.logits, out.features, labels, counts)
    shares = [float(diagnostics.deviation_share(counts, bound)) for bound in (plain, calibrated)]
    return {"bound": _rounded(plain), "calibrated_bound": _rounded(calibrated), "deviating": shares}


def _rounded(table: Tensor) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in table.tolist()]
