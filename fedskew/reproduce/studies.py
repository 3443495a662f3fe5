"""Studies: what a paper looks at outside of an ordinary federated run, kept like one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedskew import build, diagnostics
from fedskew.config import Config
from fedskew.data.dataset import Dataset
from fedskew.errors import DivergedError
from fedskew.experiment import Passed, Session
from fedskew.parallel import News
from fedskew.reproduce import aftermath, code, collect, results
from fedskew.reproduce.aftermath import Finding
from fedskew.reproduce.cells import Cell

Record = dict[str, Any]
Tell = Callable[[News], None]
SHOWN = 60  # examples of a class in a picture of features


def conduct(cell: Cell, config: Config, place: Path, tell: Tell) -> None:
    """Makes the study of a cell and writes it down when it is complete."""
    known = {"classes": classes, "one-epoch": aftermath.one_epoch}
    clock, records, details = time.monotonic(), [], Record()
    status, lost = "done", None
    try:
        for finding in known[cell.study["name"]](cell, config, place):
            records.append(finding.record)
            details = finding.details
            if len(records) < config.train.rounds:
                tell(News(place, len(records), config.train.rounds))
    except DivergedError as error:
        status, lost = "diverged", error
    kept = {"status": status, "records": records, "details": details}
    seconds = round(time.monotonic() - clock, 1)
    results.save_json(
        place / collect.STUDY, {**kept, "seconds": seconds, "code": code.version(config, study=True)}
    )
    tell(News(place, config.train.rounds, config.train.rounds, lost))


def classes(cell: Cell, config: Config, place: Path) -> Iterator[Finding]:
    """One model trained on the first `observed` classes: what becomes of the others' proxies (MAP, Fig. 5-7).

    A round is an epoch, so momentum starts anew with each; gradients are read off how far rows moved.
    """
    experiment = build.experiment(config)
    data = experiment.dataset()
    observed = int(cell.study["observed"])
    kept = data._replace(train=data.train[data.y.numpy()[data.train] < observed])
    seen = torch.arange(len(data.classes)) < observed
    with experiment.session(config.seeds[0], kept) as session:
        start = _proxies(session, session.feed.algorithm.initial)
        for step in session.rounds():
            record = _numbers(step.record) | _geometry(session, step, seen, start)
            targets = step.record["global.per_class"][: int(cell.study.get("targets", observed))]
            record["targets.accuracy"] = sum(targets) / len(targets)
            last = step.round.number + 1 == config.train.rounds
            yield Finding(record, _features(session, step, data, seen) if last else {})


def _numbers(record: Record) -> Record:
    return {key: value for key, value in record.items() if isinstance(value, int | float)}


def _proxies(session: Session, tree: dict[str, Tensor]) -> Tensor:
    return tree[session.feed.algorithm.model.proxies]


def _geometry(session: Session, step: Passed, seen: Tensor, start: Tensor) -> Record:
    before, after = (_proxies(session, state["shared"]) for state in (step.round.before, step.round.server))
    found = diagnostics.proxy_geometry(after, seen)
    pushed = (before - after).norm(dim=-1) / session.feed.algorithm.solver.lr
    record = {
        "norm.observed": found.norms[seen].mean(),
        "norm.missing": found.norms[~seen].mean(),
        "gradient.observed": pushed[seen].mean(),
        "gradient.missing": pushed[~seen].mean(),
        "distance.observed_observed": found.observed_observed,
        "distance.observed_missing": found.observed_missing,
        "distance.missing_missing": found.missing_missing,
    }
    record["norm.gap"] = record["norm.observed"] - record["norm.missing"]
    record["distance.left"] = found.missing_missing / diagnostics.proxy_geometry(start, seen).missing_missing
    return {key: float(value) for key, value in record.items()}


def _features(session: Session, step: Passed, data: Dataset, seen: Tensor) -> Record:
    """Features of some test examples where they have two dimensions, and all proxies."""
    algorithm = session.feed.algorithm
    if algorithm.model.width != 2:
        return {}
    labels = data.y[torch.from_numpy(data.test)]
    chosen = torch.cat([(labels == label).nonzero()[:SHOWN, 0] for label in seen.nonzero()[:, 0]])
    x = session.feed.x[torch.from_numpy(data.test)[chosen]]
    with torch.no_grad():
        features = algorithm.model.forward(algorithm.overall(step.round.server), x, False).features
    return {
        "features": [[round(float(value), 4) for value in row] for row in features],
        "labels": labels[chosen].tolist(),
        "proxies": _proxies(session, step.round.server["shared"]).tolist(),
        "observed": seen.tolist(),
    }
