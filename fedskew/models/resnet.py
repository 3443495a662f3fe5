"""Residual networks for images of any size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from fedskew.errors import ConfigError
from fedskew.models.layers import Init, Residual, initialised, residual, sequence, two_layer_head


@dataclass(frozen=True)
class ResNet:
    """The 6n+2 family with widths 16, 32, 64 (He et al. 2016, §4.2).

    Shortcuts are projected where the shape changes, as in the code of MAP, not padded.
    """

    depth: int = 20
    two_layer_head: bool = False
    bias: bool = True  # of a one-layer head
    init: Init = "torch"

    def __post_init__(self) -> None:
        if self.depth < 8 or self.depth % 6 != 2:
            raise ConfigError(
                f"ResNet depth = {self.depth}: use 6n + 2, that is 8, 14, 20, 26, 32, 44, 56, ..."
            )

    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The network for images [channels, height, width]."""
        stem = [nn.Conv2d(shape[0], 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        blocks = _blocks(16, (16, 32, 64), self.depth // 6)
        head = two_layer_head(64, outputs) if self.two_layer_head else nn.Linear(64, outputs, bias=self.bias)
        layers = [*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return initialised(sequence(layers, head), self.init)


@dataclass(frozen=True)
class ResNet18:
    """ResNet-18 with ImageNet's stem (He et al. 2016, table 1)."""

    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The network for images [channels, height, width]."""
        stem = [nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks = _blocks(64, (64, 128, 256, 512), 2)
        layers = [*stem, pool, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return sequence(layers, nn.Linear(512, outputs))


def _blocks(inputs: int, widths: Sequence[int], repeats: int) -> Iterator[Residual]:
    for width in widths:
        for _ in range(repeats):
            yield residual(nn.Conv2d, inputs, width)
            inputs = width
