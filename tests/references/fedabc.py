"""FedABC: for every class a focal yes-or-no loss without the easy pairs, summed over classes."""

import torch
from torch import Tensor, nn

from references.common import Loss, Result, Setting, fedavg_with


def run(
    setting: Setting,
    sigma: float = 2.0,
    high: float = 0.75,
    low: float = 0.25,
    low_missing: float = 0.30,
    over_classes: str = "sum",
    class_sets: str = "client",
    constant_focus: bool = False,
) -> Result:
    def loss_of(k: int) -> Loss:
        held = setting.counts(k) > 0

        def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            q = torch.sigmoid(model(x))
            total = torch.zeros((), dtype=torch.float64)
            for b in range(len(y)):
                for c in range(setting.classes):
                    mine = bool(held[c]) if class_sets == "client" else bool((y == c).any())
                    p = q[b, c]
                    focus = p.detach() if constant_focus else p
                    if y[b] == c and p < high:
                        total = total + (1 - focus) ** sigma * -torch.log(p)
                    elif y[b] != c and p > (low if mine else low_missing):
                        total = total + focus**sigma * -torch.log(1 - p)
            if not total.requires_grad:
                total = total + 0 * q.sum()
            return total / len(y) / (setting.classes if over_classes == "mean" else 1)

        return loss

    return fedavg_with(setting, loss_of)


NOTHING_DROPPED = {"high": 2.0, "low": -1.0, "low_missing": -1.0}
