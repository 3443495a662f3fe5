"""A network that is a plain chain of layers, read off its module: what the fast backends can run."""

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from torch import nn

Pair = tuple[int, int]


class Norm(NamedTuple):
    """What batch-norm has beside its weight and bias: the names of its buffers, and its numbers."""

    mean: str
    variance: str
    batches: str
    momentum: float
    eps: float


class Link(NamedTuple):
    """A linear layer, a convolution (stride 1) or a batch-norm, with the max-pooling and ReLU that follow it."""

    weight: str  # name in the tree
    bias: str | None
    inputs: int  # features or channels
    outputs: int
    kernel: Pair | None = None  # of a convolution
    padding: Pair = (0, 0)
    pool: Pair = (1, 1)
    relu: bool = False
    norm: Norm | None = None

    @property
    def linear(self) -> bool:
        """Whether it takes vectors, not images."""
        return self.kernel is None and self.norm is None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight."""
        return (self.outputs,) if self.norm else (self.outputs, self.inputs, *(self.kernel or ()))

    def grid(self, before: Pair) -> Pair:
        """Height and width after this link."""
        sizes = zip(before, self.kernel or (1, 1), self.padding, self.pool, strict=True)
        height, width = ((size + 2 * pad - kernel + 1) // pool for size, kernel, pad, pool in sizes)
        return height, width


class Chain(NamedTuple):
    """The links of a network in order; the features are what enters link number `tap`."""

    links: tuple[Link, ...]
    tap: int

    @property
    def names(self) -> tuple[str | None, ...]:
        """Weight and bias of every link; None where there is no bias."""
        return tuple(name for link in self.links for name in (link.weight, link.bias))

    @property
    def shapes(self) -> list[tuple[int, ...] | None]:
        """The shapes of these entries."""
        found: list[tuple[int, ...] | None] = []
        for link in self.links:
            found += [link.shape, (link.outputs,) if link.bias else None]
        return found

    @property
    def norms(self) -> tuple[Norm, ...]:
        """The batch-norms in it."""
        return tuple(link.norm for link in self.links if link.norm)

    def grids(self, shape: tuple[int, ...]) -> list[Pair] | None:
        """Height and width of what enters each link (1 x 1: a vector); None where examples do not fit."""
        images = self.links[0].kernel is not None
        if images and len(shape) != 3:
            return None
        width, grid = (shape[0], (shape[1], shape[2])) if images else (prod(shape), (1, 1))
        found = []
        for link in self.links:
            if link.linear:
                width, grid = width * prod(grid), (1, 1)
            if width != link.inputs or min(grid) < 1:
                return None
            found.append(grid)
            width, grid = link.outputs, link.grid(grid)
        return found


def chain_of(module: nn.Module, entry: str) -> Chain | None:
    """The module as a chain whose features enter the module `entry`; None if it is anything else."""
    links: list[Link] = []
    tap, flat = None, False
    for name, layer in _leaves(module):
        if isinstance(layer, nn.Linear) and (flat or not links):
            tap = len(links) if tap is None and _opens(module, entry, name) else tap
            links.append(_linear(name, layer))
            flat = True
        elif isinstance(layer, nn.Conv2d) and not flat and _simple_convolution(layer):
            links.append(_convolution(name, layer))
        elif isinstance(layer, nn.BatchNorm2d) and links and _simple_norm(layer, links[-1]):
            links.append(_norm(name, layer))
        elif isinstance(layer, nn.MaxPool2d) and links and not flat and _simple_pool(layer, links[-1]):
            links[-1] = links[-1]._replace(pool=_pair(layer.kernel_size))
        elif isinstance(layer, nn.ReLU) and links:
            links[-1] = links[-1]._replace(relu=True)
        elif isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1):
            flat = True
        else:
            return None
    return Chain(tuple(links), tap) if links and tap is not None else None


def _leaves(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    # Only nn.Sequential itself is known to call its children in turn.
    if type(module) is nn.Sequential:
        for name, child in module.named_children():
            yield from _leaves(child, f"{prefix}.{name}" if prefix else name)
    else:
        yield prefix, module


def _opens(module: nn.Module, entry: str, leaf: str) -> bool:
    """Whether what enters `entry` enters `leaf`."""
    inside = dict(module.named_modules()).get(entry)
    return inside is not None and next(_leaves(inside, entry))[0] == leaf


def _linear(name: str, layer: nn.Linear) -> Link:
    bias = None if layer.bias is None else _entry(name, "bias")
    return Link(_entry(name, "weight"), bias, layer.in_features, layer.out_features)


def _entry(module: str, own: str) -> str:
    """Its name in the tree; the network itself has none."""
    return f"{module}.{own}" if module else own


def _convolution(name: str, layer: nn.Conv2d) -> Link:
    bias = None if layer.bias is None else f"{name}.bias"
    kernel, padding = _pair(layer.kernel_size), _pair(layer.padding)
    return Link(f"{name}.weight", bias, layer.in_channels, layer.out_channels, kernel, padding)


def _norm(name: str, layer: nn.BatchNorm2d) -> Link:
    mean, variance, batches = (
        f"{name}.{own}" for own in ("running_mean", "running_var", "num_batches_tracked")
    )
    norm = Norm(mean, variance, batches, float(layer.momentum or 0), layer.eps)
    return Link(f"{name}.weight", f"{name}.bias", layer.num_features, layer.num_features, norm=norm)


def _simple_norm(layer: nn.BatchNorm2d, before: Link) -> bool:
    follows = before.kernel is not None and before.pool == (1, 1) and not before.relu
    return follows and layer.affine and layer.track_running_stats and layer.momentum is not None


def _simple_convolution(layer: nn.Conv2d) -> bool:
    return (
        layer.stride == (1, 1)
        and layer.dilation == (1, 1)
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


def _simple_pool(layer: nn.MaxPool2d, link: Link) -> bool:
    return (
        _pair(layer.kernel_size) == _pair(layer.stride)
        and _pair(layer.padding) == (0, 0)
        and _pair(layer.dilation) == (1, 1)
        and not layer.ceil_mode
        and not layer.return_indices
        and link.pool == (1, 1)
    )


def _pair(value: int | str | tuple[int, ...]) -> Pair:
    return (int(value[0]), int(value[1])) if isinstance(value, tuple) else (int(value), int(value))
