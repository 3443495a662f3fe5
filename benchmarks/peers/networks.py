"""The networks of the workloads for the simulators that train torch modules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from setting import Array
from torch import nn

LAYERS = {
    "fedabc-mlp": lambda: [
        *(nn.Flatten(), nn.Linear(784, 260), nn.ReLU()),
        *(nn.Linear(260, 200), nn.ReLU(), nn.Linear(200, 10)),
    ],
    "bench-cnn": lambda: [
        *(nn.Conv2d(1, 16, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(16, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1568, 10)),
    ],
    "fedabc-cnn": lambda: [
        *(nn.Conv2d(3, 64, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(64, 64, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(1600, 120), nn.ReLU(), nn.Linear(120, 64), nn.ReLU(), nn.Linear(64, 10)),
    ],
    "fedlc-cnn-28": lambda: [
        *(nn.Conv2d(1, 128, 3, padding=1), nn.BatchNorm2d(128), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(128, 128, 3, padding=1), nn.BatchNorm2d(128), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(128, 128, 3, padding=1), nn.BatchNorm2d(128), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1152, 10)),
    ],
}


def build(network: str, start: Sequence[Array]) -> nn.Module:
    """The network with these weights."""
    made = nn.Sequential(*LAYERS[network]())
    fill(made, start)
    return made


@torch.no_grad()
def fill(module: nn.Module, weights: Sequence[Array]) -> None:
    """Puts weights, and statistics of batch-norm, into a module."""
    for entry, value in zip(_entries(module), weights, strict=True):
        entry.copy_(torch.from_numpy(np.asarray(value)))


def weights(module: nn.Module) -> list[Array]:
    """The weights of a module, and what else it keeps."""
    return [entry.detach().numpy().copy() for entry in _entries(module)]


def _entries(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]
