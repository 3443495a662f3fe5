"""FedProx: cross-entropy + mu/2 * sum (w - w_received)^2 over the parameters."""

from torch import Tensor, nn

from references.common import Loss, LossOf, Result, Setting, average, descend, loaded, plain, state_of


def run(setting: Setting, mu: float = 0.01, loss: LossOf = plain) -> Result:
    server, personal = setting.initial, {}
    for t in range(setting.rounds):
        chosen = setting.participants(t)
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            descend(setting, model, setting.batches(t, k), near(model, mu, loss(k)))
            personal[k] = state_of(model)
        server = average([personal[k] for k in chosen], [setting.size(k) for k in chosen])
    return Result(server, personal)


def near(model: nn.Module, mu: float, fit: Loss) -> Loss:
    """The loss `fit`, and the network kept near where it is now."""
    start = [w.detach().clone() for w in model.parameters()]

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        squares = [(w - w0).square().sum() for w, w0 in zip(model.parameters(), start, strict=True)]
        return fit(model, x, y) + mu / 2 * sum(squares)

    return loss
