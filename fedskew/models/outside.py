"""Plain torch modules for use without this library: raw inputs scaled, one-vs-all components side by side."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class OneVsAll(nn.Module):
    """One binary network per class (FedOVA); a component with two outputs answers with their difference."""

    def __init__(self, components: Iterable[nn.Module], outputs: int) -> None:
        super().__init__()
        self.components = nn.ModuleList(components)
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        """A score for every class."""
        answers = [component(x) for component in self.components]
        if self.outputs == 2:
            answers = [one[:, 1:] - one[:, :1] for one in answers]
        return torch.cat(answers, 1)


class Scaled(nn.Module):
    """Takes raw numbers, and hands the network what it was trained on: (x - mean) / std by channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, mean: Tensor, std: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.network = network
        self.dtype = dtype
        self.register_buffer("mean", mean)  # [C, 1, ...] in double precision, as the data were scaled
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        """The network's answer to raw inputs."""
        scores: Tensor = self.network(((x - self.mean) / self.std).to(self.dtype))
        return scores
