"""What the networks are put together from."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

Init = Literal["torch", "kaiming"]
Convolution = type[nn.Conv1d] | type[nn.Conv2d]


class Residual(nn.Module):
    """The sum of a path and a shortcut (He et al. 2016)."""

    def __init__(self, path: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()  # torch registers nothing without it
        self.path = path
        self.shortcut = shortcut
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """ReLU of the sum."""
        found: Tensor = self.relu(self.path(x) + self.shortcut(x))
        return found


_KINDS: dict[type[nn.Module], str] = {
    nn.Conv1d: "conv",
    nn.Conv2d: "conv",
    nn.BatchNorm1d: "norm",
    nn.BatchNorm2d: "norm",
    nn.MaxPool2d: "pool",
    nn.AdaptiveAvgPool1d: "mean",
    nn.AdaptiveAvgPool2d: "mean",
    nn.ReLU: "relu",
    nn.Flatten: "flatten",
    nn.Linear: "fc",
    Residual: "block",
}


def sequence(layers: Iterable[nn.Module], head: nn.Module | None = None) -> nn.Sequential:
    """The layers in order, each named by its kind and number (conv1, relu1, fc1), then the `head`."""
    seen: Counter[str] = Counter()
    named: OrderedDict[str, nn.Module] = OrderedDict()
    for layer in layers:
        kind = _KINDS[type(layer)]
        seen[kind] += 1
        named[f"{kind}{seen[kind]}"] = layer
    if head is not None:
        named["head"] = head
    return nn.Sequential(named)


def dense(width: int, hidden: Iterable[int]) -> Iterator[nn.Module]:
    """Fully connected layers from `width` inputs through the `hidden` widths, each followed by a ReLU."""
    for inputs, outputs in pairwise((width, *hidden)):
        yield nn.Linear(inputs, outputs)
        yield nn.ReLU()


def residual(convolution: Convolution, inputs: int, width: int, kernel: int = 3) -> Residual:
    """Two convolutions with batch-norm; a wider block halves the length and projects its shortcut."""
    norm = nn.BatchNorm1d if convolution is nn.Conv1d else nn.BatchNorm2d
    stride = 1 if inputs == width else 2
    first = convolution(inputs, width, kernel, stride, padding=kernel // 2, bias=False)
    second = convolution(width, width, kernel, padding=kernel // 2, bias=False)
    path = sequence([first, norm(width), nn.ReLU(), second, norm(width)])
    if inputs == width:
        return Residual(path, nn.Identity())
    return Residual(path, sequence([convolution(inputs, width, 1, stride, bias=False), norm(width)]))


def two_layer_head(width: int, outputs: int) -> nn.Sequential:
    """GRP-FED's classifier: width -> width -> ReLU -> outputs."""
    return sequence([*dense(width, [width]), nn.Linear(width, outputs)])


def initialised(network: nn.Sequential, init: Init) -> nn.Sequential:
    """The network with torch's initial weights, or (`kaiming`) drawn as the authors of MAP draw them."""
    if init == "kaiming":
        for layer in network.modules():
            # A skeleton on the meta device has nothing to draw, and normal_ there imports for two seconds.
            if isinstance(layer, nn.Conv2d | nn.Linear) and not layer.weight.is_meta:
                _draw(layer)
    return network


def _draw(layer: nn.Conv2d | nn.Linear) -> None:
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    else:
        nn.init.normal_(layer.weight, std=0.01)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
