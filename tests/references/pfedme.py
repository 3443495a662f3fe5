"""pFedMe: theta follows the loss and w, w follows theta; w is uploaded, theta is the client's model."""

import torch

from references.common import Result, Setting, average, cross_entropy, loaded, state_of


def run(
    setting: Setting,
    inner: int = 5,
    strength: float = 15.0,
    rate: float = 0.01,
    beta: float = 1.0,
    reset: bool = False,
) -> Result:
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            theta = loaded(setting.build(setting.classes), server)
            w = [value.detach().clone() for value in theta.parameters()]
            for x, y in setting.batches(t, k):
                if reset:
                    for p, v in zip(theta.parameters(), w, strict=True):
                        p.data.copy_(v)
                for _ in range(inner):
                    params = list(theta.parameters())
                    gradients = torch.autograd.grad(cross_entropy(theta, x, y), params)
                    for p, v, g in zip(params, w, gradients, strict=True):
                        p.data.sub_(rate * (g + strength * (p.data - v)))
                w = [
                    v - setting.lr * strength * (v - p.data)
                    for v, p in zip(w, theta.parameters(), strict=True)
                ]
            personal[k] = state_of(theta)
            names = [name for name, _ in theta.named_parameters()]
            uploads.append({**personal[k], **dict(zip(names, w, strict=True))})
        mean = average(uploads, [setting.size(k) for k in chosen])
        server = {
            n: (1 - beta) * server[n] + beta * v if v.is_floating_point() else v for n, v in mean.items()
        }
    return Result(server, personal)
