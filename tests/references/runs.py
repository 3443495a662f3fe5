"""The presets on the tiny setting: what the references and the contract compare."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import NamedTuple

import torch

from fedskew import methods
from fedskew.algorithm import Algorithm
from fedskew.data.federation import Training
from fedskew.engines.engine import Engine
from fedskew.engines.serial import Serial
from fedskew.engines.vectorised import Vectorised
from fedskew.method import Method
from fedskew.models.module import factory
from fedskew.part import Part
from fedskew.step import SGD
from fedskew.tree import State, Tree
from fedskew.values import Reply
from references import world
from references.common import Setting

PRESETS = {name: value for name, value in vars(methods).items() if isinstance(value, Method)}
SOLVER = SGD(lr=0.1, momentum=0.9, weight_decay=0.01)


class Finished(NamedTuple):
    """A run after its last round."""

    algorithm: Algorithm
    engine: Engine
    server: State
    reply: Reply  # of the last round

    def personal(self) -> dict[int, Tree]:
        """The network with which each client that took part predicts at home."""
        idle = self.engine.feed.idle
        return {k: self.algorithm.personal(self.server, own, idle(k)) for k, own in self.engine.kept.items()}


def tuned(method: Method, part: str, **settings: object) -> Method:
    """The method with other settings of one of its parts."""
    for slot in (field.name for field in fields(Method)):
        value = getattr(method, slot)
        if slot == "terms" and part in {term.name for term in value}:
            terms = (replace(term, **settings) if term.name == part else term for term in value)
            return replace(method, terms=tuple(terms))
        if isinstance(value, Part) and value.name == part:
            return replace(method, **{slot: replace(value, **settings)})
    raise KeyError(f"{part} is no part of {method}")


def algorithm(
    method: Method, network: str = "perceptron", dtype: torch.dtype = torch.float64, solver: SGD = SOLVER
) -> Algorithm:
    """The method on one of the networks of the setting."""
    model = method.network.build(factory(world.NETWORKS[network]), world.CLASSES)
    return Algorithm(
        method,
        model,
        solver,
        population=len(world.COUNTS),
        expected=world.RATIO * world.ROUNDS,
        seed=world.SEED,
        dtype=dtype,
    )


def advance(
    bound: Algorithm, engine: Engine, server: State, rounds: range, ids: tuple[int, ...] | None = None
) -> tuple[State, Reply]:
    """The server after these rounds, and the last replies; with `ids`, these clients take part each time."""
    for t in rounds:
        chosen = ids or world.federation().participants(world.SEED, t, world.RATIO)
        reply, cohort = engine.exchange(bound.message(server, t), chosen, t)
        server = bound.step(server, reply, cohort)
    return server, reply


def finished(
    method: Method,
    engine: str = "serial",
    network: str = "perceptron",
    dtype: torch.dtype = torch.float64,
    rounds: int = world.ROUNDS,
    solver: SGD = SOLVER,
    ids: tuple[int, ...] | None = None,
    training: Training = world.TRAINING,
) -> Finished:
    """The method after some rounds of the setting."""
    return _finished(method, engine, network, dtype, rounds, solver, ids, training)


@cache  # which takes keyword and positional arguments for different ones
def _finished(
    method: Method,
    engine: str,
    network: str,
    dtype: torch.dtype,
    rounds: int,
    solver: SGD,
    ids: tuple[int, ...] | None,
    training: Training,
) -> Finished:
    bound = algorithm(method, network, dtype, solver)
    kind = {"serial": Serial, "vectorised": Vectorised}[engine]
    machine = kind(bound, world.federation(), training)
    server, reply = advance(bound, machine, bound.init(), range(rounds), ids)
    return Finished(bound, machine, server, reply)


def setting(method: Method, network: str) -> Setting:
    """The same world as a reference sees it."""
    bound = algorithm(method, network)
    return Setting(
        world.federation(),
        world.NETWORKS[network],
        bound.initial,
        bound.fresh,
        world.TRAINING,
        world.SEED,
        rounds=world.ROUNDS,
        ratio=world.RATIO,
        lr=SOLVER.lr,
        momentum=SOLVER.momentum,
        decay=SOLVER.weight_decay,
    )


def gap(a: Tree, b: Tree) -> float:
    """The largest difference of two trees with the same names and shapes."""
    assert a.keys() == b.keys(), f"names differ: {sorted(a.keys() ^ b.keys())}"
    assert all(a[name].shape == b[name].shape for name in a), "shapes differ"
    return max((float((a[name].double() - b[name].double()).abs().max()) for name in a), default=0.0)
