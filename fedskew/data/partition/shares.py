"""Schemes that give every client a share of each class; the same shares cut train and test."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from fedskew.data.partition import dealing
from fedskew.data.partition.base import TRIES, Partition, Samples, Scheme, enough_samples, number, whole
from fedskew.data.partition.dealing import Floats, Indices
from fedskew.errors import ConfigError


@dataclass(frozen=True)
class Dirichlet(Scheme):
    """Shares of each class drawn from Dir(beta), until every client has the minimum (Yurochkin et al., 2019).

    The balance rule of NIID-Bench gives no more to a client that has its N/K samples; "if_needed" turns to it
    when all draws without it have failed.
    """

    beta: float
    clients: int
    balanced: bool | Literal["if_needed"] = False
    minimum: int = 10

    def __post_init__(self) -> None:
        number("beta", self.beta, 1e-6, 1e6)
        whole("clients", self.clients, 1)
        whole("minimum", self.minimum, 1)
        if self.balanced not in (True, False, "if_needed"):
            raise ConfigError(f"balanced must be true, false or 'if_needed', not {self.balanced!r}")

    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        return _by_shares(train, test, self.shares(train.totals, random), random)

    def shares(self, totals: Indices, random: Generator) -> Floats:
        """What part of each class each client gets, [K, C]; the same for train and test."""
        samples, best = int(totals.sum()), 0
        wish = f"{self.clients} clients x {self.minimum} samples = {self.clients * self.minimum}"
        if self.clients * self.minimum > samples:
            raise ConfigError(f"{wish}, but there are only {samples}; use fewer clients or a smaller minimum")
        plain, balanced = [self._draw] * TRIES, [self._draw_balanced] * TRIES
        draws = {False: plain, True: balanced, "if_needed": plain + balanced}[self.balanced]
        for draw in draws:
            shares = draw(totals, random)
            best = max(best, int(dealing.cut(shares, totals).sum(axis=1).min()))
            if best >= self.minimum:
                return shares
        raise ConfigError(
            f"{wish} of {samples}, but the poorest got at most {best} in {len(draws)} draws at beta "
            f"{self.beta:g}; use fewer clients, a larger beta or a smaller minimum"
        )

    def _draw(self, totals: Indices, random: Generator) -> Floats:
        return random.dirichlet(np.full(self.clients, self.beta), size=len(totals)).T

    def _draw_balanced(self, totals: Indices, random: Generator) -> Floats:
        shares = np.zeros((self.clients, len(totals)))
        held = np.zeros(self.clients, dtype=np.int64)
        for label in range(len(totals)):
            hungry = held * self.clients < totals.sum()
            hungry |= not hungry.any()  # everyone is full only when no sample is left
            # A Dirichlet draw with clients struck out and scaled to sum to one is a Dirichlet draw among the
            # rest; drawn so, it cannot become 0/0 when a small beta gives all to a client that is full.
            shares[hungry, label] = random.dirichlet(np.full(hungry.sum(), self.beta))
            held += dealing.cut(shares[:, [label]], totals[[label]])[:, 0]
        return shares


@dataclass(frozen=True)
class PowerLaw(Scheme):
    """Sizes fall over the clients as m^-rho, a client's classes as rank^-tau in its own order (GRP-FED).

    The paper gives rho and tau but no formula; a geometric fall would leave most clients without a sample.
    """

    clients: int
    rho: float = 0.7
    tau: float = 0.5

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1)
        number("rho", self.rho, 0, 10)
        number("tau", self.tau, 0, 10)

    def deal(self, train: Samples, test: Samples, random: Generator) -> Partition:
        enough_samples(train, self.clients)
        return _by_shares(train, test, self.weights(len(train.totals), random), random)

    def weights(self, classes: int, random: Generator) -> Floats:
        """The weight of each client in each class, [K, C]."""
        rank = np.argsort(random.random((self.clients, classes)), axis=1)
        client = np.arange(self.clients)[:, None]
        return np.asarray((client + 1.0) ** -self.rho * (rank + 1.0) ** -self.tau)


def _by_shares(train: Samples, test: Samples, shares: Floats, random: Generator) -> Partition:
    def dealt(side: Samples) -> tuple[Indices, ...]:
        owner = dealing.hand_out(side.labels, dealing.cut(shares, side.totals), random)
        return dealing.parts(side.positions, owner, len(shares))

    return Partition(dealt(train), dealt(test))
