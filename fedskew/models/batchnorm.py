"""Batch-norm statistics of a network, measured anew."""

from collections.abc import Iterable

import torch

from fedskew.tree import Tree
from fedskew.values import Batch, Model


def refreshed(model: Model, params: Tree, batches: Iterable[Batch]) -> Tree:
    """The network with the mean over these batches of their statistics, weighted by examples."""
    moving = [name for name in model.buffers if params[name].is_floating_point()]
    batches = [batch for batch in batches if len(batch.y) > 1]
    if not moving or not batches:
        return params
    # A network moves its statistics to (1 - m) old + m batch. From old = 0 and old = 1, m and batch follow.
    blank = {name: torch.zeros_like(params[name]) for name in moving}
    ones = {name: torch.ones_like(params[name]) for name in moving}
    pace = model.forward({**params, **ones}, batches[0].x, True).buffers
    sums, count = dict(blank), sum(len(batch.y) for batch in batches)
    for index, batch in enumerate(batches):
        found = model.forward({**params, **blank}, batch.x, True).buffers
        if index == 0:
            pace = {name: 1 - (pace[name] - found[name]) for name in moving}
        sums = {name: sums[name] + found[name] * (len(batch.y) / count) for name in moving}
    return {**params, **{name: sums[name] / pace[name] for name in moving}}
