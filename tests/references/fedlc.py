"""FedLC: logits less tau n^(-1/4), classes the client lacks left out of the sum; FedAvg otherwise."""

import torch
from torch import Tensor, nn

from references.common import Loss, Result, Setting, fedavg_with


def run(
    setting: Setting,
    tau: float = 1.0,
    missing: str = "out",
    counts: str = "own",
    form: str = "quarter",
    others: bool = False,
) -> Result:
    total = sum(setting.counts(k) for k in range(setting.clients))
    return fedavg_with(
        setting,
        lambda k: calibrated(setting.counts(k) if counts == "own" else total, tau, missing, form, others),
    )


def calibrated(
    n: Tensor, tau: float = 1.0, missing: str = "out", form: str = "quarter", others: bool = False
) -> Loss:
    """The loss of a client with these counts; `others` leaves the label out of the sum, as printed."""
    held = [c for c in range(len(n)) if n[c] > 0 or missing == "in"]

    def margin(c: int) -> float:
        if form == "log prior":
            return -tau * float(torch.log(n[c] / n.sum()))
        return tau * float(max(n[c], 1)) ** -0.25

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = model(x)
        rows = []
        for z, label in zip(logits, y.tolist(), strict=True):
            u = {c: z[c] - margin(c) for c in held}
            rivals = [u[c] for c in held if c != label or not others]
            rows.append(torch.logsumexp(torch.stack(rivals), 0) - u[label] if rivals else 0 * z.sum())
        return torch.stack(rows).mean()

    return loss
