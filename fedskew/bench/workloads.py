"""The fixed workloads: data, split, network and training of one round whose time is compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedskew.data import registry
from fedskew.data.dataset import Dataset
from fedskew.data.federation import Training
from fedskew.data.partition import IID, Dirichlet, Labels, Scheme
from fedskew.engines.choose import Choice
from fedskew.errors import ConfigError, DataError, unknown
from fedskew.evaluate import Timetable
from fedskew.experiment import Experiment
from fedskew.step import SGD

FASHION = (1, 28, 28)
STAND_IN = "random stand-in"


@dataclass(frozen=True)
class Workload:
    """A round whose time is measured; seconds are for `passes` of one example through the network and back."""

    about: str
    model: str
    split: Scheme
    participation: float
    training: Training
    solver: SGD
    passes: int
    flops: float  # of one pass, forward and backward, counted densely
    shape: tuple[int, ...] = FASHION
    samples: int = 60_000

    def dataset(self) -> Dataset:
        """Fashion-MNIST where it is installed, else random numbers of the same shape."""
        if self.shape == FASHION:
            try:
                return registry.load("fashion-mnist")
            except DataError:
                return random_images(self.samples, self.shape, f"fashion-mnist, {STAND_IN}")
        return random_images(self.samples, self.shape, "random")

    def experiment(self, method: str, engine: Choice) -> Experiment:
        """One method on this workload, without evaluation."""
        return Experiment(
            self.dataset(),
            self.split,
            self.model,
            method,
            participation=self.participation,
            training=self.training,
            solver=self.solver,
            timetable=Timetable(personal=0),
            engine=engine,
        )


def random_images(samples: int, shape: tuple[int, ...], name: str) -> Dataset:
    """Images of noise in ten classes, the last tenth for testing."""
    random = torch.Generator().manual_seed(0)
    total = samples + samples // 10
    x, y = torch.randn(total, *shape, generator=random), torch.randint(10, (total,), generator=random)
    places = np.arange(total)
    return Dataset(name, x, y, places[:samples], places[samples:], tuple(map(str, range(10))))


_PLAIN = SGD(lr=0.01)
_SMALL = Training(epochs=5, batch=15)

WORKLOADS: dict[str, Workload] = {
    "W1": Workload(
        "Fashion-MNIST, 20 clients, Dirichlet 0.3, MLP 784-260-200-10, batch 64, 5 epochs, 10 a round",
        *("fedabc-mlp", Dirichlet(beta=0.3, clients=20), 0.5, Training(epochs=5, batch=64)),
        SGD(lr=0.01, momentum=0.9, weight_decay=1e-5),
        passes=150_000,
        flops=1.139e6,
    ),
    "W2": Workload(
        "Fashion-MNIST, 100 clients of two labels, two convolutions 5x5, batch 15, 5 epochs, 20 a round",
        *("bench-cnn", Labels(per_client=2, clients=100), 0.2, _SMALL, _PLAIN),
        passes=60_000,
        flops=16.4e6,
    ),
    "W3": Workload(
        "as W2 with 1,000 clients of 60 examples, 200 a round",
        *("bench-cnn", Labels(per_client=2, clients=1000), 0.2, _SMALL, _PLAIN),
        passes=60_000,
        flops=16.4e6,
    ),
    "W4": Workload(
        "random 3x32x32, 20 clients x 2,500, two convolutions 5x5 of 64, batch 64, 1 epoch, 10 a round",
        *("fedabc-cnn", IID(clients=20), 0.5, Training(epochs=1, batch=64), _PLAIN),
        passes=25_000,
        flops=77.7e6,
        shape=(3, 32, 32),
        samples=50_000,
    ),
    "W5": Workload(
        "Fashion-MNIST, 20 clients x 3,000, FedLC's three convolutions 3x3 of 128 with batch-norm, batch 128, "
        "1 epoch, 4 a round",
        *("fedlc-cnn-28", IID(clients=20), 0.2, Training(epochs=1, batch=128), _PLAIN),
        passes=12_000,
        flops=220e6,
    ),
}


def workload(name: str) -> Workload:
    """The workload of this name."""
    if name not in WORKLOADS:
        raise ConfigError(unknown("workload", name, WORKLOADS))
    return WORKLOADS[name]
