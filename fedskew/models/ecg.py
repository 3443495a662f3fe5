"""GRP-FED's network for heartbeats."""

from dataclasses import dataclass

from torch import nn

from fedskew.models.layers import residual, sequence, two_layer_head


@dataclass(frozen=True)
class ECGResNet:
    """A residual network in one dimension with five convolutions on the path (GRP-FED §4.1).

    The paper gives the depth only: widths 32 and 64, kernel 7 and the halving in the second block are ours.
    """

    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The network for signals [leads, samples]."""
        stem = [nn.Conv1d(shape[0], 32, 7, padding=3, bias=False), nn.BatchNorm1d(32), nn.ReLU()]
        blocks = [residual(nn.Conv1d, 32, 32, kernel=7), residual(nn.Conv1d, 32, 64, kernel=7)]
        return sequence([*stem, *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten()], two_layer_head(64, outputs))
