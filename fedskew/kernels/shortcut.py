"""Plain networks behind the same `forward`: a custom autograd function over buffers that are used again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fedskew.kernels.backend import Backend, current
from fedskew.kernels.build import prepare
from fedskew.kernels.chain import Chain, Link, chain_of
from fedskew.kernels.native import NativeRunner
from fedskew.kernels.norm import FusedNorm
from fedskew.kernels.torch_ops import Layer, Stats, TorchRunner
from fedskew.kernels.winograd import Winograd
from fedskew.tree import Tree
from fedskew.values import Out

_PIECE = 128  # examples run at once where nothing has to be remembered
_WHOLE = 16  # channels in multiples of this are whole vectors on every processor


class Memory(Protocol):
    """The buffers of one pass."""

    @property
    def capacity(self) -> int: ...


class Runner(Protocol):
    """A chain on some kernels."""

    def memory(self, batch: int) -> Any: ...

    def forward(
        self, memory: Any, x: Tensor, params: Sequence[Tensor | None], stats: Stats
    ) -> tuple[Tensor, Tensor]: ...

    def backward(
        self,
        memory: Any,
        x: Tensor,
        params: Sequence[Tensor | None],
        d_logits: Tensor | None,
        d_features: Tensor | None,
        wanted: Sequence[bool],
        stats: Stats,
    ) -> list[Tensor | None]: ...


class _Passes:
    """A runner and its buffers: each pass that may still go backward has its own, others are used again."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._free: list[Memory] = []

    def borrow(self, batch: int) -> Memory:
        while self._free:
            memory = self._free.pop()
            if memory.capacity >= batch:
                return memory
        found: Memory = self.runner.memory(batch)
        return found

    def give_back(self, memory: Memory) -> None:
        self._free.append(memory)


class _Pass(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, passes: _Passes, x: Tensor, stats: Stats, *params: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        memory = passes.borrow(len(x))
        # Not by `save_for_backward`, which in every step looks for changes in place; trees never undergo any.
        ctx.passes, ctx.memory, ctx.inputs = passes, memory, (x, params, stats)
        ctx.set_materialize_grads(False)
        return passes.runner.forward(memory, x, params, stats)

    @staticmethod
    def backward(ctx: Any, d_logits: Tensor | None, d_features: Tensor | None) -> tuple[Tensor | None, ...]:
        if ctx.memory is None or torch.is_grad_enabled():
            raise RuntimeError(
                "a network on fast kernels can be differentiated once: its buffers are used again."
            )
        x, params, stats = ctx.inputs
        grads = ctx.passes.runner.backward(
            ctx.memory, x, params, d_logits, d_features, ctx.needs_input_grad[3:], stats
        )
        ctx.passes.give_back(ctx.memory)
        ctx.memory = None
        return None, None, None, *grads


class Shortcut:
    """Runs the module as a chain where it is one and the engine wants it; gives None otherwise."""

    def __init__(self, module: nn.Module, entry: str) -> None:
        self._chain = chain_of(module, entry)
        self._names = self._chain.names if self._chain else ()
        self._shapes = self._chain.shapes if self._chain else []
        self._known: dict[tuple[Backend, torch.Size, torch.dtype], _Passes | None] = {}

    def __call__(self, params: Tree, x: Tensor, train: bool) -> Out | None:
        """The forward pass, or None where it is left to torch."""
        backend = current()
        if backend == "autograd" or self._chain is None or not _plain(x):
            return None
        if train and self._chain.norms and len(x) == 1:
            return None  # which torch refuses where a channel has a single value
        passes = self._passes(backend, x)
        values = [None if name is None else params[name] for name in self._names]
        # The kernels trust their arguments; what they do not know is torch's to run or to refuse.
        if passes is None or [v if v is None else v.shape for v in values] != self._shapes:
            return None
        if any(v is not None and (v.dtype != x.dtype or not v.is_contiguous()) for v in values):
            return None
        stats = self._stats(params, train)
        if torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in values):
            logits, features = _Pass.apply(passes, x.contiguous(), stats, *values)  # type: ignore[no-untyped-call]
        else:
            logits, features = _forward_only(passes, x.contiguous(), values, stats)
        return Out(logits, features, stats.buffers)

    def _stats(self, params: Tree, train: bool) -> Stats:
        norms = self._chain.norms if self._chain else ()
        names = [name for norm in norms for name in (norm.mean, norm.variance, norm.batches)]
        buffers = {name: params[name].clone() if train else params[name] for name in names}
        for norm in norms if train else ():
            buffers[norm.batches] += 1
        return Stats(buffers, train)

    def _passes(self, backend: Backend, x: Tensor) -> _Passes | None:
        key = backend, x.shape[1:], x.dtype
        if key not in self._known:
            assert self._chain is not None
            self._known[key] = _passes(self._chain, *key)
        return self._known[key]


def _plain(x: Tensor) -> bool:
    # Buffers that are written again cannot live under vmap, nor can there be a gradient of the input.
    transformed = torch._C._are_functorch_transforms_active()
    return x.device.type == "cpu" and len(x) > 0 and not x.requires_grad and not transformed


def _passes(chain: Chain, backend: Backend, shape: torch.Size, dtype: torch.dtype) -> _Passes | None:
    if chain.grids(tuple(shape)) is None or dtype not in (torch.float32, torch.float64):
        return None
    if backend == "torch" or not prepare(backend):
        return _Passes(TorchRunner(chain))
    return _Passes(TorchRunner(chain, faster) if chain.norms else NativeRunner(chain, tuple(shape), dtype))


def faster(link: Link) -> Layer | None:
    """What runs a link better than torch does, if there is anything."""
    if link.norm and link.outputs % _WHOLE == 0:
        return FusedNorm(link, link.norm)
    small = link.kernel == (3, 3) and link.padding in ((0, 0), (1, 1), (2, 2))
    return Winograd(link) if small and link.inputs % _WHOLE == link.outputs % _WHOLE == 0 else None


def _forward_only(
    passes: _Passes, x: Tensor, params: Sequence[Tensor | None], stats: Stats
) -> tuple[Tensor, Tensor]:
    whole = stats.train and stats.buffers  # batch-norm looks at all of a batch
    size = len(x) if whole else min(len(x), _PIECE)
    memory = passes.borrow(size)
    outs = [passes.runner.forward(memory, piece, params, stats) for piece in torch.split(x, size)]
    passes.give_back(memory)
    if len(outs) == 1:
        return outs[0]
    return torch.cat([logits for logits, _ in outs]), torch.cat([features for _, features in outs])
