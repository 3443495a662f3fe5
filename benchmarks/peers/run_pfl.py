"""A workload on pfl-research: FederatedAveraging on a SimulatedBackend, a process a core by torchrun."""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

import torch
from networks import build, weights
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from setting import Setting, load, report
from torch import Tensor, nn


class Network(nn.Module):
    """The network with the loss where pfl looks for it."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.layers = build(setting.network, setting.start)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
        self.train(not eval)
        return nn.functional.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor, eval: bool = True) -> dict[str, Weighted]:
        return {"loss": Weighted(float(self.loss(x, y, eval=True)) * len(y), len(y))}


class Clock(TrainingProcessCallback):
    """The time after every round."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        self.times.append(time.perf_counter())
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.times.append(time.perf_counter())
        return False, Metrics()


class Order:
    """Users as the setting draws them, again and again; pfl asks for them in a process of its own."""

    def __init__(self, participants: list[list[int]]) -> None:
        self.users, self.position = [k for drawn in participants for k in drawn], -1

    def __call__(self) -> int:
        self.position += 1
        return self.users[self.position % len(self.users)]


def dataset(setting: Setting) -> FederatedDataset:
    """Users in the order of the setting, dealt to the processes by size."""
    x, y = torch.tensor(setting.x), torch.tensor(setting.y)
    users = {k: Dataset((x[own], y[own]), user_id=k) for k, own in enumerate(setting.clients)}
    sizes = {k: len(own) for k, own in enumerate(setting.clients)}
    return FederatedDataset(users.__getitem__, Order(setting.participants), sizes)


def main(folder: Path) -> None:
    """All rounds."""
    torch.set_num_threads(1)
    setting = load(folder)
    network = Network(setting)

    def optimizer(parameters: object, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr, momentum=setting.momentum, weight_decay=setting.decay)

    model = PyTorchModel(network, optimizer, torch.optim.SGD(network.parameters(), 1.0))
    rounds, cohort = len(setting.participants), len(setting.participants[0])
    clock = Clock()
    # The first round alone is evaluated, and it is not timed.
    FederatedAveraging().run(
        NNAlgorithmParams(rounds, rounds, cohort, None),
        SimulatedBackend(dataset(setting), None, [WeightByDatapoints()]),
        model,
        NNTrainHyperParams(
            local_num_epochs=setting.epochs,
            local_learning_rate=setting.lr,
            local_batch_size=setting.batch,
        ),
        NNEvalHyperParams(local_batch_size=1000),
        [clock],
        send_metrics_to_platform=False,
    )
    if pytorch_ops.distributed.global_rank == 0:
        seconds = [later - earlier for earlier, later in pairwise(clock.times)]
        report(folder, seconds, [setting.passes(drawn) for drawn in setting.participants], weights(network))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
