"""The one training loop: phases, updates, steps."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew import tree
from fedskew.phase import Context, Phase, Update, Value
from fedskew.step import Gradient, GradientAt
from fedskew.tree import Tree
from fedskew.values import Batch, Plan, Run

Loss = Callable[[Tree], tuple[Tensor, Value]]
Differentiate = Callable[[Loss, Tree], tuple[Tree, Value]]
Hold = Callable[[Tree, Tree], Tree]


def autograd(loss: Loss, params: Tree) -> tuple[Tree, Value]:
    """Gradient and value by plain autograd."""
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    with torch.enable_grad():
        total, value = loss(leaves)
        grads = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    detached = Value(total.detach(), value.objective.detach(), tree.detach(value.buffers))
    return dict(zip(leaves, grads, strict=True)), detached


def functional(loss: Loss, params: Tree) -> tuple[Tree, Value]:
    """Gradient and value by torch.func, which vmap can batch."""
    grads, (_, value) = torch.func.grad_and_value(loss, has_aux=True)(params)
    return grads, value


def train(
    phases: Sequence[Phase],
    work: Tree,
    names: Sequence[str],
    context: Context,
    hold: Hold,
    differentiate: Differentiate,
) -> Run:
    """Runs the phases on the working tree; `names` are the entries of the network."""
    run = None
    for phase, plan in zip(phases, context.data.plans, strict=True):
        work, tally = _phase(phase, plan, work, context, hold, differentiate)
        if phase.emits:
            steps = torch.as_tensor(tally.steps).to(tally.loss.dtype)
            loss = tally.loss / torch.as_tensor(tally.examples).clamp(min=1)
            effective = phase.updates[0].step.effective(steps)
            run = Run(tree.pick(work, names), work, steps, effective, loss)
    assert run is not None, "one phase must emit"
    return run._replace(end=work, loss=run.loss + 0 * _sum(work))


def beside(runs: Sequence[Run]) -> Run:
    """One run of several that trained a row of the tree each."""
    emitted, end = ([getattr(run, name) for run in runs] for name in ("emitted", "end"))
    loss = torch.stack([run.loss for run in runs]).sum()
    return runs[0]._replace(emitted=tree.concatenate(emitted), end=tree.concatenate(end), loss=loss)


def _sum(work: Tree) -> Tensor:
    """No number if an entry is none: a later phase may go wrong while the reported loss looks well."""
    return torch.stack([value.sum() for value in work.values() if value.is_floating_point()]).sum()


class _Tally(NamedTuple):
    steps: int | Tensor  # tensors where some steps are padding
    loss: Tensor  # sum over examples
    examples: int | Tensor


def _phase(
    phase: Phase, plan: Plan, work: Tree, context: Context, hold: Hold, differentiate: Differentiate
) -> tuple[Tree, _Tally]:
    memories = [update.step.init(tree.pick(work, update.trains)) for update in phase.updates]
    dtype = next(iter(work.values())).dtype
    tally = _Tally(0, torch.zeros((), dtype=dtype), 0)
    width = max(update.step.batches for update in phase.updates)
    active = plan.alive()
    for first in range(0, len(plan.steps), width):
        batches = [context.data.batch(plan, position) for position in range(first, first + width)]
        alive = None if active is None else active[first]
        for index, update in enumerate(phase.updates):
            work, memories[index], value = _update(
                update, work, memories[index], batches, alive, context, hold, differentiate
            )
            if index == 0:
                tally = _count(tally, batches[0], value, alive)
    return work, tally


def _count(tally: _Tally, batch: Batch, value: Tensor, alive: Tensor | None) -> _Tally:
    if alive is None:
        size = len(batch.y)
        return _Tally(tally.steps + 1, torch.add(tally.loss, value, alpha=size), tally.examples + size)
    live = batch.size()
    loss = torch.where(alive, value, torch.zeros_like(value))
    return _Tally(tally.steps + alive.to(torch.int64), tally.loss + loss * live, tally.examples + live)


def _update(
    update: Update,
    work: Tree,
    memory: Tree,
    batches: Sequence[Batch],
    alive: Tensor | None,
    context: Context,
    hold: Hold,
    differentiate: Differentiate,
) -> tuple[Tree, Tree, Tensor]:
    for _ in range(update.repeats):
        old = tree.pick(work, update.trains)
        at = _gradient(update, work, context, differentiate)
        new, new_memory, found = update.step.take(old, memory, batches, at)
        new = {**new, **found.buffers}
        new = hold(new, tree.pick(work, new))
        if alive is not None:
            new = {name: torch.where(alive, value, work[name]) for name, value in new.items()}
            new_memory = tree.where(alive, new_memory, memory)
        work, memory = {**work, **new}, new_memory
    return work, memory, found.value


def _gradient(update: Update, work: Tree, context: Context, differentiate: Differentiate) -> GradientAt:
    loss = update.loss

    def at(params: Tree, batch: Batch) -> Gradient:
        if loss is None:
            value, direction, buffers = torch.zeros(()), tree.zeros(params), Tree()
        else:

            def of(trained: Tree) -> tuple[Tensor, Value]:
                result = loss({**work, **trained}, batch, context)
                return result.total, result

            direction, result = differentiate(of, params)
            value, buffers = result.objective, result.buffers
        pull = update.pull({**work, **params}, context) if update.pull else {}
        if pull:
            direction = {n: g + pull[n] if n in pull else g for n, g in direction.items()}
        return Gradient(value, direction, buffers)

    return at
