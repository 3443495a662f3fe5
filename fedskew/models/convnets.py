"""Convolutions and poolings in stages, then fully connected layers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt
from torch import nn

from fedskew.errors import ConfigError
from fedskew.models.layers import Init, dense, initialised, sequence

Stage = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]


@dataclass(frozen=True)
class ConvNet:
    """Each stage is convolutions of these widths (with batch-norm or not) and ReLU, then one max-pooling."""

    stages: Annotated[tuple[Stage, ...], Field(min_length=1)] = ((16,), (32,))
    kernel: PositiveInt = 5
    padding: NonNegativeInt = 2
    pool: tuple[PositiveInt, PositiveInt] = (2, 2)
    batch_norm: bool = False
    hidden: tuple[PositiveInt, ...] = ()
    bias: bool = True  # of the head
    rectified: bool = True  # whether the last hidden layer ends in a ReLU
    init: Init = "torch"

    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The network for images [channels, height, width]."""
        channels, height, width = shape
        rows, columns = self._pooled(height, self.pool[0]), self._pooled(width, self.pool[1])
        flat = self.stages[-1][-1] * rows * columns
        top = list(dense(flat, self.hidden))
        if self.hidden and not self.rectified:
            top.pop()
        head = nn.Linear((flat, *self.hidden)[-1], outputs, bias=self.bias)
        layers = [*self._convolutions(channels), nn.Flatten(), *top]
        return initialised(sequence(layers, head), self.init)

    def _convolutions(self, channels: int) -> Iterator[nn.Module]:
        for stage in self.stages:
            for position, width in enumerate(stage, 1):
                yield nn.Conv2d(channels, width, self.kernel, padding=self.padding)
                if self.batch_norm:
                    yield nn.BatchNorm2d(width)
                if position == len(stage):
                    # Before the ReLU, not after: the same function and gradient, fewer numbers to rectify.
                    yield nn.MaxPool2d(self.pool)
                yield nn.ReLU()
                channels = width

    def _pooled(self, size: int, pool: int) -> int:
        left = size
        for stage in self.stages:
            left = (left + len(stage) * (2 * self.padding - self.kernel + 1)) // pool
            if left < 1:
                raise ConfigError(
                    f"{size} pixels are too few for {len(self.stages)} stages with kernel {self.kernel}, "
                    f"padding {self.padding} and pooling {pool}: use fewer stages or more padding."
                )
        return left
