"""Arithmetic on flat {name: tensor} dictionaries."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

Tree = dict[str, Tensor]
State = dict[str, Tree]


def pick(tree: Tree, names: Iterable[str]) -> Tree:
    """The entries with these names, in this order."""
    return {name: tree[name] for name in names}


def apply(function: Callable[..., Tensor], first: Tree, *others: Tree) -> Tree:
    """Applies a function entry by entry; the names of the first tree decide."""
    return {name: function(value, *(other[name] for other in others)) for name, value in first.items()}


def add(a: Tree, b: Tree) -> Tree:
    return apply(torch.add, a, b)


def subtract(a: Tree, b: Tree) -> Tree:
    return apply(torch.sub, a, b)


def scale(a: Tree, factor: float | Tensor) -> Tree:
    return apply(lambda value: value * factor, a)


def zeros(a: Tree) -> Tree:
    return apply(torch.zeros_like, a)


def clone(a: Tree) -> Tree:
    return apply(torch.clone, a)


def detach(a: Tree) -> Tree:
    return apply(torch.detach, a)


def cast(a: Tree, dtype: torch.dtype) -> Tree:
    """Floating-point entries in another precision; integers stay."""
    return apply(lambda value: value.to(dtype) if value.is_floating_point() else value, a)


def where(condition: Tensor, a: Tree, b: Tree) -> Tree:
    """Entry by entry a where the (scalar) condition holds, else b."""
    return apply(lambda x, y: torch.where(condition, x, y), a, b)


def norm(a: Tree) -> Tensor:
    """Euclidean norm of all entries taken as one vector."""
    return torch.stack([value.square().sum() for value in a.values()]).sum().sqrt()


def prefix(a: Tree, name: str) -> Tree:
    """The same entries under `name/`."""
    return {f"{name}/{key}": value for key, value in a.items()}


def under(a: Tree, name: str) -> Tree:
    """The entries below `name/`, without it."""
    start = f"{name}/"
    return {key[len(start) :]: value for key, value in a.items() if key.startswith(start)}


def stack(trees: Sequence[Tree]) -> Tree:
    """One tree with a leading axis; where entries have unequal numbers of rows, zero rows fill up."""
    return {name: _stacked([tree[name] for tree in trees]) for name in trees[0]}


def _stacked(values: Sequence[Tensor]) -> Tensor:
    if len({value.shape for value in values}) == 1:
        return torch.stack(list(values))
    rows = max(len(value) for value in values)
    out = values[0].new_zeros(len(values), rows, *values[0].shape[1:])
    for row, value in zip(out, values, strict=True):
        row[: len(value)] = value
    return out


def row(stacked: Tree, index: int) -> Tree:
    """One tree of a stack."""
    return {name: value[index] for name, value in stacked.items()}


def rows(stacked: Tree, first: int, end: int) -> Tree:
    """Some trees of a stack, as a stack."""
    return {name: value[first:end] for name, value in stacked.items()}


def concatenate(stacks: Sequence[Tree]) -> Tree:
    """One stack of several."""
    return {name: torch.cat([stack[name] for stack in stacks]) for name in stacks[0]}


def mean(stacked: Tree, weights: Tensor) -> Tree:
    """Weighted sum over the leading axis; an integer entry takes its maximum."""
    return apply(lambda value: _weighted(value, weights), stacked)


def _weighted(value: Tensor, weights: Tensor) -> Tensor:
    if not value.is_floating_point():
        return value.amax(0)
    total: Tensor = torch.tensordot(weights.to(value.dtype), value, dims=1)
    return total


def nbytes(tree: Tree) -> int:
    """Bytes on the wire: four for every number; the counters of batch-norm do not count."""
    return 4 * sum(value.numel() for value in tree.values() if value.dtype != torch.int64)
