"""Personalisation at prediction time: a few plain steps from the received network."""

from dataclasses import replace

from fedskew.local import autograd, train
from fedskew.method import Kit
from fedskew.phase import Context, Phase
from fedskew.tree import Tree
from fedskew.values import Client, Plan


def adapt(kit: Kit, received: Tree, data: Client, expected: float, steps: int | None = None) -> Tree:
    """The network after one epoch over the client's data, or so many steps of it, by SGD without momentum."""
    solver = replace(kit.solver, momentum=0.0)
    update = kit.main(objective=kit.method.objective.at_home(), terms=(), solver=solver)
    # A single example has no batch statistics.
    epoch = tuple(step for step in data.epoch.steps if len(step) > 1 or not kit.model.buffers)
    client = data._replace(plans=(Plan(epoch[:steps]),))
    context = Context(received, {}, client, 0, solver.lr, expected)
    phase = Phase(lambda steps, epochs: range(steps), (update,), emits=True)
    hold = kit.method.share.hold
    return train(
        (phase,), received, kit.model.names, context, lambda new, old: hold(new, old, data), autograd
    ).end
