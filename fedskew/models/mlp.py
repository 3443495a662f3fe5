"""Networks without convolutions."""

from dataclasses import dataclass
from math import prod

from pydantic import PositiveInt
from torch import nn

from fedskew.models.layers import Init, dense, initialised, sequence


@dataclass(frozen=True)
class MLP:
    """Fully connected layers with ReLU; without hidden ones it is multinomial logistic regression."""

    hidden: tuple[PositiveInt, ...] = (64,)
    bias: bool = True  # of the head
    init: Init = "torch"

    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The network for inputs of this shape, taken as one vector."""
        width = prod(shape)
        head = nn.Linear((width, *self.hidden)[-1], outputs, bias=self.bias)
        return initialised(sequence([nn.Flatten(), *dense(width, self.hidden)], head), self.init)
