"""Bad clients and robust aggregates on digits: results/robustness.csv, which docs/reliability.md shows.

python tools/robustness.py [SEEDS] trains every setting that the file does not hold yet and adds it.
Label flipping: a bad client learns 9 - y for y. Noise: it uploads what it received plus Gaussian noise.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from fedskew import metrics
from fedskew.algorithm import Algorithm
from fedskew.data.dataset import Dataset
from fedskew.data.federation import Federation, Training
from fedskew.data.partition import IID, Labels
from fedskew.engines.vectorised import Vectorised
from fedskew.experiment import Experiment
from fedskew.method import Method
from fedskew.part import Aggregate
from fedskew.parts import ClippedMean, Mean, Median, MultiKrum, TrimmedMean
from fedskew.step import SGD
from fedskew.tree import State, Tree
from fedskew.values import Cohort, Reply

PATH = Path(__file__).parent.parent / "results" / "robustness.csv"
CLIENTS, ROUNDS, LAST, NOISE = 20, 20, 5, 0.5
SPLITS = {"iid": IID(CLIENTS), "two labels": Labels(per_client=2, clients=CLIENTS)}
RULES: dict[str, Aggregate] = {
    "mean": Mean(),
    "median": Median(),
    "trimmed mean": TrimmedMean(0.3),
    "multi-Krum": MultiKrum(0.3),
    "norm clipping": ClippedMean(1.0),
}
ATTACKS = (("none", 0.0), *product(("flip", "noise"), (0.1, 0.2, 0.3)))


class Case(NamedTuple):
    """One line of the file."""

    split: str
    attack: str
    share: float
    rule: str
    seed: int


def cases(seeds: int) -> Iterator[Case]:
    """Everything that is measured."""
    for split, (attack, share), rule, seed in product(SPLITS, ATTACKS, RULES, range(seeds)):
        yield Case(split, attack, share, rule, seed)


def bad_clients(case: Case) -> list[int]:
    """The clients that misbehave: the same ones for every rule."""
    drawn = np.random.default_rng([case.seed, CLIENTS]).permutation(CLIENTS)
    return sorted(int(k) for k in drawn[: round(case.share * CLIENTS)])


def flipped(federation: Federation, bad: Sequence[int]) -> Federation:
    """The bad clients' examples with the labels 9 - y."""
    data: Dataset = federation.data
    y = data.y.clone()
    for client in bad:
        own = torch.from_numpy(federation.partition.train[client])
        y[own] = federation.classes - 1 - y[own]
    return Federation(data._replace(y=y), federation.partition)


def noisy(replies: Reply, cohort: Cohort, bad: Sequence[int], received: Tree, seed: int) -> Reply:
    """The replies with noise in place of what the bad clients have learnt."""
    random = torch.Generator().manual_seed(1000 * seed + cohort.round)
    rows = [place for place, client in enumerate(cohort.ids) if client in bad]
    shared = {name: value.clone() for name, value in replies.shared.items()}
    for name, value in shared.items():
        for row in rows:
            value[row] = received[name] + NOISE * torch.randn(received[name].shape, generator=random)
    return replies._replace(shared=shared)


def accuracy(algorithm: Algorithm, server: State, data: Dataset) -> float:
    """The share of all test examples that the server's model gets right."""
    test = torch.from_numpy(data.test)
    logits = algorithm.predict(algorithm.overall(server), data.x[test])
    return float((metrics.predict(logits) == data.y[test]).double().mean())


def measured(case: Case, data: Dataset) -> float:
    """The mean accuracy of the last rounds."""
    plan = Experiment(
        split=SPLITS[case.split],
        method=Method(aggregate=RULES[case.rule]),
        rounds=ROUNDS,
        participation=1.0,
        solver=SGD(lr=0.2),
    )
    bad, honest = bad_clients(case), plan.federation(data, case.seed)
    federation = flipped(honest, bad) if case.attack == "flip" else honest
    algorithm = plan.algorithm(federation, case.seed)
    engine = Vectorised(algorithm, federation, Training(epochs=1, batch=16), block=CLIENTS)
    server, found = algorithm.init(), []
    for number in range(ROUNDS):
        ids = federation.participants(case.seed, number, 1.0)
        replies, cohort = engine.exchange(algorithm.message(server, number), ids, number)
        if replies is None:
            continue
        if case.attack == "noise":
            replies = noisy(replies, cohort, bad, server["shared"], case.seed)
        server = algorithm.step(server, replies, cohort)
        if number >= ROUNDS - LAST:
            found.append(accuracy(algorithm, server, data))
    return sum(found) / len(found)


def known() -> dict[Case, str]:
    """What the file holds already."""
    if not PATH.exists():
        return {}
    with PATH.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        Case(r["split"], r["attack"], float(r["share"]), r["rule"], int(r["seed"])): r["accuracy"]
        for r in rows
    }


def write(found: dict[Case, str], wanted: Sequence[Case]) -> None:
    """The file with its lines in order; a study that is stopped leaves the one before."""
    part = PATH.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow([*Case._fields, "accuracy"])
        out.writerows([*case, found[case]] for case in wanted if case in found)
    part.replace(PATH)


def main(seeds: int) -> None:
    """Measures what is missing, seed by seed, so that an interrupted study is whole as far as it goes."""
    torch.set_num_threads(1)
    data, found, wanted = Experiment().dataset(), known(), list(cases(seeds))
    for case in sorted(wanted, key=lambda one: one.seed):
        if case not in found:
            found[case] = f"{measured(case, data):.6f}"
            write(found, wanted)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
