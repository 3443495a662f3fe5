"""VGG for 32x32 images: one linear layer on 512 features (as in the code of FedRS and MAP)."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from fedskew.models.convnets import ConvNet
from fedskew.models.layers import Init

_STAGES = {
    8: ((64,), (128,), (256,), (512,), (512,)),
    11: ((64,), (128,), (256, 256), (512, 512), (512, 512)),
    16: ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)),
}


@dataclass(frozen=True)
class VGG:
    """Five stages of 3x3 convolutions, each halving the image (Simonyan & Zisserman 2015)."""

    depth: Literal[8, 11, 16] = 11
    batch_norm: bool = False
    bias: bool = True  # of the head
    init: Init = "torch"

    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The network for images [channels, height, width]."""
        return ConvNet(
            stages=_STAGES[self.depth],
            kernel=3,
            padding=1,
            batch_norm=self.batch_norm,
            bias=self.bias,
            init=self.init,
        ).module(shape, outputs)
