"""FedRS: logits of classes the client does not hold are multiplied by alpha; FedAvg otherwise."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Loss, Result, Setting, fedavg_with


def run(setting: Setting, alpha: float = 0.5, soft: bool = False) -> Result:
    return fedavg_with(setting, lambda k: restricted(setting.counts(k), alpha, soft))


def restricted(counts: Tensor, alpha: float = 0.5, soft: bool = False) -> Loss:
    """The cross-entropy of restricted logits at a client with these counts."""
    scale = torch.tensor([1.0 if n > 0 else alpha for n in counts], dtype=torch.float64)
    if soft:
        scale = alpha + (1 - alpha) * counts / counts.max()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(scale * model(x), y)

    return loss
