"""Advice from label counts alone: how skewed, which classes will suffer, what to try first and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
import torch

from fedskew import doctor, keys
from fedskew.catalogue import METHODS
from fedskew.data.federation import Training
from fedskew.data.partition.dealing import Indices
from fedskew.data.partition.measure import summary
from fedskew.evidence import Finding, like
from fedskew.methods import compose
from fedskew.step import SGD
from fedskew.tally import Tally

OVERALL, PERSONAL = "global.accuracy", "personal.accuracy"
DRAWS = 20  # even deals that show how much skew is chance
WORDS = ((0.1, "hardly skewed"), (0.3, "mildly skewed"), (0.6, "strongly skewed"), (1.1, "extremely skewed"))
CHANCE = "as even as chance leaves clients of these sizes"
# In the order in which they are tried; what each does against this kind of skew.
MISSING = {
    "fedlc": "leaves classes a client does not hold out of its softmax and widens the margins of rare ones",
    "fedrs": "holds back the logits of classes a client does not hold, also where it holds only one",
    "fedabc": "asks yes or no for every class, so a class that is missing is not pushed down by the others",
}
UNEVEN = {
    "fedlc": "gives rare classes of a client wider margins",
    "scaffold": "corrects each step by how far the client's direction is from everybody's",
    "fedprox": "keeps clients near the model they received",
}
EVEN = {
    "fedavg": "has nothing to correct here",
    "fednova": "evens out that clients of different size take different numbers of steps",
    "fedavgm": "smooths what is left of the differences between rounds",
}
WORTH = 0.005  # less of a gain, or of a loss, decides nothing
OWN = {
    "map": "uploads a restricted model and keeps a personal one that inherits from round to round",
    "ditto": "trains a private network beside the shared one",
}


class Skew(NamedTuple):
    """The federation in a few numbers."""

    clients: int
    classes: int
    samples: int
    sizes: tuple[int, int, int]  # least, median, most
    held: tuple[int, int, int]  # classes per client: least, median, most
    distance: float  # mean Jensen-Shannon distance from the whole
    by_chance: float  # the same for an even deal of the same sizes
    missing: float
    alone: int  # clients with a single class


class Suffering(NamedTuple):
    """A class that few clients hold."""

    name: str
    holders: int
    samples: int
    absent: float  # share of rounds in which nobody who holds it takes part


class Suggestion(NamedTuple):
    """A method to try, why, and what was measured."""

    method: str
    goal: str
    reason: str
    evidence: tuple[Finding, ...]


class Advice(NamedTuple):
    """What can be said from counts."""

    skew: Skew
    suffering: tuple[Suffering, ...]
    suggestions: tuple[Suggestion, ...]
    left_out: tuple[tuple[str, str], ...]  # methods that cannot work here, and why


def advise(tally: Tally, found: Sequence[Finding] = (), participation: float = 0.5) -> Advice:
    """What to expect of a federation with these counts, and where to begin."""
    skew = measure(tally.counts)
    near = like(found, skew.distance, skew.missing)
    reasons = _reasons(skew)
    overall, out = _first(tally.counts, _ranked(near, OVERALL, reasons), 2)
    own, also = _first(tally.counts, _ranked(near, PERSONAL, OWN), 1)
    made = [_suggestion(name, "one model for everybody", reasons, near, OVERALL) for name in overall]
    made += [_suggestion(name, "a model for every client", OWN, near, PERSONAL) for name in own]
    return Advice(skew, tuple(suffering(tally, participation)), tuple(made), (*out, *also))


def measure(counts: Indices) -> Skew:
    """How skewed the counts [K, C] are."""
    found, sizes = summary(counts), counts.sum(1)
    held = np.asarray(found.distinct)
    return Skew(
        len(counts),
        counts.shape[1],
        int(sizes.sum()),
        _spread(sizes),
        _spread(held),
        found.distance,
        _chance(counts),
        found.missing,
        int((held == 1).sum()),
    )


def _spread(values: Indices) -> tuple[int, int, int]:
    return int(values.min()), int(np.median(values)), int(values.max())


def _chance(counts: Indices) -> float:
    draw = keys.stream("partition", 0, len(counts))
    whole = counts.sum(0) / counts.sum()
    deals = (np.stack([draw.multinomial(size, whole) for size in counts.sum(1)]) for _ in range(DRAWS))
    return float(np.mean([summary(deal).distance for deal in deals]))


def words(skew: Skew) -> str:
    """How skewed, in words."""
    if WORDS[0][0] <= skew.distance <= 1.2 * skew.by_chance:
        return CHANCE
    return next(word for limit, word in WORDS if skew.distance < limit)


def suffering(tally: Tally, participation: float) -> Iterator[Suffering]:
    """Classes held by less than half as many clients as classes are on average, the rarest first."""
    holders = (tally.counts > 0).sum(0)
    samples = tally.counts.sum(0)
    clients, chosen = len(tally.counts), max(1, int(participation * len(tally.counts) + 0.5))
    for label in np.lexsort((samples, holders)):
        if holders[label] * 2 < holders.mean() or holders[label] <= 1 < clients:
            absent = comb(clients - int(holders[label]), chosen) / comb(clients, chosen)
            yield Suffering(tally.classes[label], int(holders[label]), int(samples[label]), absent)


def _reasons(skew: Skew) -> dict[str, str]:
    if words(skew) in (WORDS[0][1], CHANCE):
        return EVEN
    return MISSING if skew.missing >= 0.1 else UNEVEN


def _ranked(near: Sequence[Finding], metric: str, reasons: dict[str, str]) -> list[str]:
    """Methods by their mean gain over FedAvg where one was measured, then those that have reasons and no loss."""
    gains: dict[str, list[float]] = {}
    for one in near:
        if one.metric == metric and one.method != "fedavg":
            gains.setdefault(one.method, []).append(one.gain)
    means = {name: float(np.mean(values)) for name, values in gains.items()}
    better = sorted((name for name in means if means[name] >= WORTH), key=lambda name: -means[name])
    return [*better, *(name for name in reasons if -WORTH < means.get(name, 0.0) < WORTH)]


def _first(counts: Indices, names: Sequence[str], many: int) -> tuple[list[str], list[tuple[str, str]]]:
    """The first methods that the doctor has nothing against, and those it has."""
    chosen: list[str] = []
    out: list[tuple[str, str]] = []
    for name in names:
        if len(chosen) == many:
            break
        told = doctor.warnings(compose(name), torch.from_numpy(counts), Training(), SGD(0.05))
        about = [warning for warning in told if not warning.startswith("no client holds")]
        if about:
            out.append((name, about[0]))
        else:
            chosen.append(name)
    return chosen, out


def _suggestion(
    name: str, goal: str, reasons: dict[str, str], near: Sequence[Finding], metric: str
) -> Suggestion:
    about = "; ".join(METHODS[one].about for one in name.split("+"))
    reason = f"{reasons.get(name, 'did better than FedAvg where both were measured')} ({about})"
    found = tuple(one for one in near if one.method == name and one.metric == metric)
    return Suggestion(name, goal, reason, found)
