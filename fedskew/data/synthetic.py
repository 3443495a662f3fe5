"""Synthetic(lambda, mu): clients whose labels follow their own logistic models."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder
from fedskew.data.source import Source
from fedskew.data.split import stratified
from fedskew.errors import ConfigError
from fedskew.ranges import Count, Natural

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Synthetic(Source):
    """FedProx's and LEAF's generator (Li et al. 2020); `lam` spreads the models, `mu` the inputs of clients.

    Both are standard deviations (public code differs). `keep_classes` adds FedLC's mixed skew, for which
    the paper has no formula: a client keeps that many random classes, thinned by Dirichlet(`thinning`).
    """

    name: ClassVar[str] = "synthetic"
    lam: float = 0.0
    mu: float = 0.0
    clients: Count = 100
    inputs: int = 60
    classes: int = 10
    keep_classes: int | None = None
    thinning: float = 1.0
    seed: Natural = 0

    def __post_init__(self) -> None:
        if self.lam < 0 or self.mu < 0:
            raise ConfigError(
                f"synthetic: lam = {self.lam} and mu = {self.mu} are standard deviations, use >= 0."
            )
        if min(self.clients, self.inputs) < 1 or self.classes < 2:
            raise ConfigError("synthetic: use at least one client, one input and two classes.")
        if self.keep_classes is not None and not 1 <= self.keep_classes <= self.classes:
            raise ConfigError(
                f"synthetic: keep_classes = {self.keep_classes} is not within 1..{self.classes}."
            )
        if self.thinning <= 0:
            raise ConfigError(f"synthetic: thinning = {self.thinning} is a Dirichlet concentration, use > 0.")

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """None: the samples are drawn."""
        return ()

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """Every client's samples, 80 % of each of its classes for training."""
        drawn = [self.client(k) for k in range(self.clients)]
        owners = np.repeat(np.arange(self.clients), [len(y) for _, y in drawn])
        x = np.concatenate([x for x, _ in drawn]).astype(np.float32)
        y = np.concatenate([y for _, y in drawn])
        train, test = stratified(y, self.seed, groups=owners)
        labels = tuple(str(c) for c in range(self.classes))
        return Dataset(self.name, torch.from_numpy(x), torch.from_numpy(y), train, test, labels, owners)

    def client(self, k: int) -> tuple[Floats, Ints]:
        """The inputs and labels of client `k`, whatever the number of clients."""
        rng = np.random.default_rng((self.seed, k))
        size = int(rng.lognormal(4, 2)) + 50
        u, B = rng.normal(0, self.lam), rng.normal(0, self.mu)
        W, b = rng.normal(u, 1, (self.classes, self.inputs)), rng.normal(u, 1, self.classes)
        v = rng.normal(B, 1, self.inputs)
        x = rng.normal(v, np.arange(1, self.inputs + 1) ** -0.6, (size, self.inputs))
        y = np.argmax(x @ W.T + b, axis=1)
        if self.keep_classes is None:
            return x, y
        kept = self.thin(y, self.keep_classes, rng)
        return x[kept], y[kept]

    def thin(self, y: Ints, keep: int, rng: np.random.Generator) -> Ints:
        """The positions that survive the mixed skew: `keep` classes, each cut to its Dirichlet share."""
        present = np.unique(y)
        chosen = rng.choice(present, min(keep, len(present)), replace=False)
        share = rng.dirichlet(np.full(len(chosen), self.thinning))
        survivors = []
        for label, part in zip(chosen, share / share.max(), strict=True):
            own = np.flatnonzero(y == label)
            survivors.append(rng.permutation(own)[: max(1, round(part * len(own)))])
        return np.sort(np.concatenate(survivors))
