"""FedProto: private networks; only mean features of each class are shared, and features are drawn to them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.common import Loss, Result, Setting, descend, loaded, state_of

Prototypes = dict[int, Tensor]


def run(
    setting: Setting, weight: float = 1.0, average: str = "samples", mean_of_dimensions: bool = False
) -> Result:
    personal, prototypes = {}, {}
    for t in range(setting.rounds):
        sums: dict[int, list[tuple[float, Tensor]]] = {c: [] for c in range(setting.classes)}
        for k in setting.participants(t):
            model = loaded(setting.build(setting.classes), personal.get(k, setting.initial))
            descend(setting, model, setting.batches(t, k), drawn(prototypes, weight, mean_of_dimensions))
            personal[k] = state_of(model)
            x, y = setting.everything(k)
            with torch.no_grad():
                features = model.eval()[:-1](x)
            for c in y.unique().tolist():
                size = float((y == c).sum()) if average == "samples" else 1.0
                sums[c].append((size, features[y == c].mean(0)))
        fresh = {
            c: sum(n * mean for n, mean in found) / sum(n for n, _ in found)
            for c, found in sums.items()
            if found
        }
        prototypes = {**prototypes, **fresh}
    return Result({}, personal)


def drawn(prototypes: Prototypes, weight: float, mean_of_dimensions: bool) -> Loss:
    """Cross-entropy + weight * squared distance from the prototypes, over examples that have one."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        features = model[:-1](x)
        fit = F.cross_entropy(model[-1](features), y)
        known = [
            (h - prototypes[int(c)]).square().sum() / (len(h) if mean_of_dimensions else 1)
            for h, c in zip(features, y, strict=True)
            if int(c) in prototypes
        ]
        return fit + weight * torch.stack(known).mean() if known else fit

    return loss
