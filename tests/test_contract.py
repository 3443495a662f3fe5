"""One contract for every preset: engines, padding, order, purity, privacy, storage."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from references import world
from references.runs import PRESETS, SOLVER, Finished, advance, algorithm, finished, gap

from fedskew.algorithm import Algorithm
from fedskew.data.federation import Federation
from fedskew.engines.serial import Serial
from fedskew.method import Method
from fedskew.step import SGD
from fedskew.store import codec
from fedskew.tree import State, Tree
from fedskew.values import Client, Plan, Reply

NEXT = world.ROUNDS  # the checks on single clients take place in the round after the last
SOME = (world.LONGEST, world.SINGLE_LABEL, world.NEVER_DRAWN)

every_method = pytest.mark.parametrize("method", [pytest.param(m, id=name) for name, m in PRESETS.items()])
every_network = pytest.mark.parametrize("network", world.NETWORKS)


def flat(state: State) -> Tree:
    return {f"{part}/{name}": value for part, tree in state.items() for name, value in tree.items()}


def same_bits(a: State, b: State) -> bool:
    left, right = flat(a), flat(b)
    assert left.keys() == right.keys(), f"entries differ: {sorted(left.keys() ^ right.keys())}"
    return all(left[n].dtype == right[n].dtype and torch.equal(left[n], right[n]) for n in left)


def as_state(reply: Reply) -> State:
    """A reply as something that can be compared and stored."""
    numbers = {"samples": reply.samples, "steps": reply.steps, "a": reply.effective_steps, "loss": reply.loss}
    return {"shared": reply.shared, "numbers": numbers, **{f"extra {n}": t for n, t in reply.extra.items()}}


def without_trained(kept: State) -> State:
    return {name: entries for name, entries in kept.items() if name != "trained"}


def distance(a: State, b: State) -> float:
    return gap(flat(a), flat(b))


def halfway(method: Method, network: str = "perceptron") -> tuple[Finished, State]:
    """A run in its middle and the message of the next round."""
    run = finished(method, network=network)
    return run, run.algorithm.message(run.server, NEXT)


def kept_of(run: Finished, client: int) -> State:
    return run.engine.kept.get(client) or run.algorithm.fresh(client)


def row(block: Client, i: int) -> Client:
    """One client of a padded block."""

    def one(plan: Plan) -> Plan:
        return plan._replace(steps=plan.steps[i], live=plan.live[i])

    stacked = {n: getattr(block, n)[i] for n in Client._fields if isinstance(getattr(block, n), torch.Tensor)}
    shared = {"x": block.x, "y": block.y, "plans": tuple(map(one, block.plans)), "epoch": one(block.epoch)}
    return block._replace(**(stacked | shared))


def diverted(client: Client, widths: Sequence[int]) -> Client:
    """The same client with other examples where a plan is padding, and a pause after its first step."""

    def other(plan: Plan) -> Plan:
        return plan._replace(steps=torch.where(plan.live, plan.steps, len(client.y) - 1 - plan.steps))

    def paused(plan: Plan, width: int) -> Plan:
        def cut(part: torch.Tensor) -> torch.Tensor:
            return torch.cat([part[:width], torch.zeros_like(part[:width]), part[width:]])

        return plan._replace(steps=cut(plan.steps), live=cut(plan.live))

    plans = (paused(other(plan), width) for plan, width in zip(client.plans, widths, strict=True))
    return client._replace(plans=tuple(plans), epoch=other(client.epoch))


@every_method
@pytest.mark.parametrize(
    ("dtype", "rounds", "near"),
    [(torch.float64, 3, 1e-8), (torch.float32, 1, 1e-5)],
    ids=["double", "single"],
)
def test_engines_agree(method: Method, dtype: torch.dtype, rounds: int, near: float) -> None:
    serial, vectorised = (
        finished(method, engine, dtype=dtype, rounds=rounds) for engine in ("serial", "vectorised")
    )
    assert distance(serial.server, vectorised.server) < near
    assert serial.engine.kept.keys() == vectorised.engine.kept.keys()
    for client, kept in serial.engine.kept.items():
        assert distance(without_trained(kept), without_trained(vectorised.engine.kept[client])) < near
    theirs = vectorised.personal()
    assert all(gap(own, theirs[client]) < near for client, own in serial.personal().items())
    for field in ("samples", "steps", "effective_steps", "loss"):
        assert torch.allclose(
            getattr(serial.reply, field), getattr(vectorised.reply, field), rtol=0, atol=near
        )


@every_method
def test_padding_changes_nothing(method: Method) -> None:
    run, message = halfway(method)
    widths = [max(update.step.batches for update in phase.updates) for phase in run.algorithm.phases(NEXT)]
    block = run.engine.feed.block(NEXT, SOME)  # as long as its longest
    for i, client in list(enumerate(SOME))[1:]:
        kept = kept_of(run, client)
        ragged = run.algorithm.local(message, kept, run.engine.feed.client(NEXT, client))
        padded = run.algorithm.local(message, kept, row(block, i))
        other = run.algorithm.local(message, kept, diverted(row(block, i), widths))
        assert same_bits(as_state(padded[0]), as_state(other[0]))
        assert same_bits(padded[1], other[1])
        assert distance(without_trained(ragged[1]), without_trained(padded[1])) < 1e-12
        assert abs(ragged[0].loss - padded[0].loss) < 1e-12
        assert ragged[0].steps == padded[0].steps
        for name, value in ragged[0].shared.items():
            assert torch.allclose(
                value, padded[0].shared[name][: len(value)] if value.ndim else padded[0].shared[name]
            )


def stored(state: State) -> State:
    return codec.decode(codec.encode(state), Path("memory"))


@cache
def next_round(method: Method, order: tuple[int, ...], resumed: bool = False) -> tuple[State, State]:
    """The server and the clients after one more round, directly or from what was stored."""
    run, _ = halfway(method)
    server, kept = run.server, dict(run.engine.kept)
    if resumed:
        server, kept = stored(server), {client: stored(state) for client, state in kept.items()}
    engine = Serial(run.algorithm, world.federation(), world.TRAINING)
    engine.kept = kept
    server, _ = advance(run.algorithm, engine, server, range(NEXT, NEXT + 1), order)
    return server, {f"{client} {n}": tree for client in SOME for n, tree in engine.kept[client].items()}


@every_method
def test_order_of_clients_changes_nothing(method: Method) -> None:
    (server, kept), (other, kept_too) = next_round(method, SOME), next_round(method, SOME[::-1])
    assert distance(server, other) < 1e-12
    assert same_bits(kept, kept_too)


@every_method
def test_a_stored_run_goes_on_with_the_same_bits(method: Method) -> None:
    (server, kept), (other, kept_too) = next_round(method, SOME), next_round(method, SOME, resumed=True)
    assert same_bits(server, other)
    assert same_bits(kept, kept_too)


@every_method
def test_same_seed_same_start(method: Method) -> None:
    """With local rounds pure and participants drawn by key, this makes equal seeds give equal runs."""
    first, second = algorithm(method), algorithm(method)
    assert same_bits(first.init(), second.init())
    assert same_bits(first.fresh(1), second.fresh(1))
    another = replace(first, seed=world.SEED + 1)
    assert not same_bits({"all": another.initial}, {"all": first.initial})


@every_method
@every_network
def test_local_is_pure(method: Method, network: str) -> None:
    """Same arguments, same bits, and the arguments are left alone: nothing, no momentum either, survives."""
    run, message = halfway(method, network)
    kept, data = kept_of(run, SOME[0]), run.engine.feed.client(NEXT, SOME[0])
    before = codec.encode(message), codec.encode(kept)
    (reply, state), (reply_too, state_too) = (run.algorithm.local(message, kept, data) for _ in range(2))
    assert same_bits(as_state(reply), as_state(reply_too))
    assert same_bits(state, state_too)
    assert before == (codec.encode(message), codec.encode(kept))


@every_method
def test_momentum_is_not_kept(method: Method) -> None:
    run, message = halfway(method)
    client, kept = next(iter(run.engine.kept.items()))
    still = algorithm(method, solver=SGD(0.1))
    _, without = still.local(message, still.fresh(client), run.engine.feed.client(NEXT, client))
    assert SOLVER.momentum
    assert flat(kept).keys() == flat(without).keys()


@every_method
@every_network
def test_no_live_step_is_the_identity(method: Method, network: str) -> None:
    run, message = halfway(method, network)
    nothing = torch.zeros(6, 5, dtype=torch.int64), torch.zeros(6, 5, dtype=torch.bool)
    for client in SOME[1:]:
        kept, data = kept_of(run, client), run.engine.feed.client(NEXT, client)
        received = run.algorithm.method.share.take(message["shared"], data)
        for plan in (Plan(()), Plan(*nothing)):
            idle = data._replace(plans=tuple(plan for _ in data.plans))
            reply, state = run.algorithm.local(message, kept, idle)
            assert same_bits({"shared": reply.shared}, {"shared": received})
            assert same_bits(without_trained(state), without_trained(kept))
            assert reply.steps == 0
            assert reply.loss == 0


@every_method
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_one_label_is_finite(method: Method, dtype: torch.dtype) -> None:
    bound = algorithm(method, dtype=dtype)
    engine = Serial(bound, world.federation(), world.TRAINING)
    server = bound.init()
    for t in range(2):
        reply, cohort = engine.exchange(bound.message(server, t), (world.SINGLE_LABEL,), t)
        server = bound.step(server, reply, cohort)
        states = [as_state(reply), server, *engine.kept.values()]
        assert all(value.isfinite().all() for s in states for tree in s.values() for value in tree.values())


@every_method
def test_what_is_private_stays(method: Method) -> None:
    run = finished(method)
    bound: Algorithm = run.algorithm
    assert set(run.reply.shared) == set(bound.shared)
    assert set(bound.shared).isdisjoint(bound.private)
    assert set(bound.shared) | set(bound.private) == set(bound.model.names)
    secret = {bound.part(name).name for name in run.reply.extra if not bound.part(name).reveals}
    assert not secret, f"{secret} send more than parameters without saying so in `reveals`"


@every_method
def test_some_clients_never_train(method: Method) -> None:
    """Clients kept out of training are not counted, but the others keep their numbers."""
    novel = world.federation().partition._replace(novel=(0, 1))
    federation = Federation(world.federation().data, novel)
    bound = replace(algorithm(method), population=len(federation.trainers))
    engine = Serial(bound, federation, world.TRAINING)
    server = bound.init()
    for t in range(2):
        reply, cohort = engine.exchange(bound.message(server, t), federation.trainers[-1:], t)
        server = bound.step(server, reply, cohort)
    assert all(value.isfinite().all() for value in flat(server).values())
