"""The loss formulas of the papers as pure functions: logits, labels, counts -> scalar."""

from fedskew.losses.binary import binary_cross_entropy, discriminator, fedabc, fool, one_vs_all
from fedskew.losses.softmax import (
    balanced_softmax,
    cross_entropy,
    fedlc,
    fedlc_margins,
    masked_softmax,
    restricted_softmax,
    restriction,
)
from fedskew.losses.transfer import contrastive, distillation, mmd, prototype, spread

__all__ = [
    "balanced_softmax",
    "binary_cross_entropy",
    "contrastive",
    "cross_entropy",
    "discriminator",
    "distillation",
    "fedabc",
    "fedlc",
    "fedlc_margins",
    "fool",
    "masked_softmax",
    "mmd",
    "one_vs_all",
    "prototype",
    "restricted_softmax",
    "restriction",
    "spread",
]
