"""FedLC: logits less tau n^(-1/4), classes the client lacks left out of the sum; FedAvg otherwise."""

import torch
from torch import Tensor, nn

from references.common import Loss, Result, Setting, fedavg_with


def run(setting: Setting, tau: float = 1.0, missing: str = "out", counts: str = "own") -> Result:
    total = sum(setting.counts(k) for k in range(setting.clients))

    def loss_of(k: int) -> Loss:
        n = setting.counts(k) if counts == "own" else total
        held = [c for c in range(setting.classes) if n[c] > 0 or missing == "in"]
        margin = {c: tau * float(max(n[c], 1)) ** -0.25 for c in held}

        def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            logits = model(x)
            calibrated = torch.stack([logits[:, c] - margin[c] for c in held], -1)
            at = torch.tensor([held.index(int(label)) for label in y])
            return (torch.logsumexp(calibrated, -1) - calibrated.gather(1, at[:, None])[:, 0]).mean()

        return loss

    return fedavg_with(setting, loss_of)
