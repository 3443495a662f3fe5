"""One contract for every preset and some compositions: engines, padding, order, purity, privacy, storage."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from references import world
from references.runs import PRESETS, Finished, advance, algorithm, finished, gap

from fedskew.algorithm import Algorithm
from fedskew.engines.serial import Serial
from fedskew.method import Method
from fedskew.step import SGD
from fedskew.store import codec
from fedskew.tree import State
from fedskew.values import Client, Plan, Reply

COMPOSED = {
    "scaffold + fedrep": PRESETS["scaffold"] + PRESETS["fedrep"],
    "fedprox + fedrs": PRESETS["fedprox"] + PRESETS["fedrs"],
    "fedprox + grpfed": PRESETS["fedprox"] + PRESETS["grpfed"],
}
CASES = PRESETS | COMPOSED
SHARED_ROUND = 2  # the round in which the checks on one client take place, after two real ones

every_method = pytest.mark.parametrize("method", [pytest.param(m, id=name) for name, m in CASES.items()])
every_network = pytest.mark.parametrize("network", world.NETWORKS)


def same_bits(a: State, b: State) -> bool:
    return codec.encode(a) == codec.encode(b)


def as_state(reply: Reply) -> State:
    """A reply as something that can be compared and stored."""
    numbers = {"samples": reply.samples, "steps": reply.steps, "a": reply.effective_steps, "loss": reply.loss}
    return {"shared": reply.shared, "numbers": numbers, **{f"extra {n}": t for n, t in reply.extra.items()}}


def without_trained(kept: State) -> State:
    return {name: entries for name, entries in kept.items() if name != "trained"}


def distance(a: State, b: State) -> float:
    assert a.keys() == b.keys()
    return max((gap(a[name], b[name]) for name in a), default=0.0)


def halfway(method: Method, network: str = "perceptron") -> tuple[Finished, State]:
    """A run after two rounds and the message of the third."""
    run = finished(method, network=network, rounds=SHARED_ROUND)
    return run, run.algorithm.message(run.server, SHARED_ROUND)


def kept_of(run: Finished, client: int) -> State:
    return run.engine.kept.get(client) or run.algorithm.fresh(client)


def row(block: Client, i: int) -> Client:
    """One client of a padded block."""
    plans = tuple(Plan(plan.steps[i], plan.live[i]) for plan in block.plans)
    stacked = {n: getattr(block, n)[i] for n in Client._fields if n not in ("x", "y", "plans")}
    return block._replace(**stacked, plans=plans)


def diverted(client: Client) -> Client:
    """The same client with other examples where the plan is padding."""
    plans = (Plan(torch.where(p.live, p.steps, len(client.y) - 1 - p.steps), p.live) for p in client.plans)
    return client._replace(plans=tuple(plans))


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
    clients = range(len(world.COUNTS))
    block = run.engine.feed.block(SHARED_ROUND, clients)
    for client in clients:
        kept = kept_of(run, client)
        ragged = run.algorithm.local(message, kept, run.engine.feed.client(SHARED_ROUND, client))
        padded = run.algorithm.local(message, kept, row(block, client))
        other = run.algorithm.local(message, kept, diverted(row(block, client)))
        assert same_bits(as_state(padded[0]), as_state(other[0]))
        assert same_bits(padded[1], other[1])
        assert distance(without_trained(ragged[1]), without_trained(padded[1])) < 1e-12
        assert abs(ragged[0].loss - padded[0].loss) < 1e-12
        assert ragged[0].steps == padded[0].steps
        for name, value in ragged[0].shared.items():
            assert torch.allclose(
                value, padded[0].shared[name][: len(value)] if value.ndim else padded[0].shared[name]
            )


@every_method
def test_order_of_clients_changes_nothing(method: Method) -> None:
    run, message = halfway(method)
    ids = tuple(world.federation().participants(world.SEED, SHARED_ROUND, world.RATIO))

    def exchange(order: Sequence[int]) -> tuple[State, State]:
        engine = Serial(run.algorithm, world.federation(), world.TRAINING)
        engine.kept = dict(run.engine.kept)
        replies, cohort = engine.exchange(message, order, SHARED_ROUND)
        kept = {f"{client} {n}": tree for client in ids for n, tree in engine.kept[client].items()}
        return run.algorithm.step(run.server, replies, cohort), kept

    (forward, kept), (backward, kept_too) = exchange(ids), exchange(ids[::-1])
    assert distance(forward, backward) < 1e-12
    assert same_bits(kept, kept_too)


@every_method
def test_same_seed_same_bits(method: Method) -> None:
    first = finished(method)
    again = finished.__wrapped__(method)
    assert same_bits(first.server, again.server)
    assert all(same_bits(kept, again.engine.kept[client]) for client, kept in first.engine.kept.items())


@every_method
@every_network
def test_local_is_pure(method: Method, network: str) -> None:
    """Same arguments, same bits, and the arguments are left alone: nothing, no momentum either, survives."""
    run, message = halfway(method, network)
    client = world.federation().participants(world.SEED, SHARED_ROUND, world.RATIO)[0]
    kept, data = kept_of(run, client), run.engine.feed.client(SHARED_ROUND, client)
    before = codec.encode(message), codec.encode(kept)
    (reply, state), (reply_too, state_too) = (run.algorithm.local(message, kept, data) for _ in range(2))
    assert same_bits(as_state(reply), as_state(reply_too))
    assert same_bits(state, state_too)
    assert before == (codec.encode(message), codec.encode(kept))


@every_method
def test_momentum_is_not_kept(method: Method) -> None:
    def names(solver: SGD) -> set[str]:
        run = finished(method, rounds=1, solver=solver)
        return {f"{n}/{key}" for kept in run.engine.kept.values() for n, tree in kept.items() for key in tree}

    assert names(SGD(0.1, momentum=0.9)) == names(SGD(0.1))


@every_method
@every_network
def test_no_live_step_is_the_identity(method: Method, network: str) -> None:
    run, message = halfway(method, network)
    for client in range(len(world.COUNTS)):
        kept, data = kept_of(run, client), run.engine.feed.client(SHARED_ROUND, client)
        empty = data._replace(plans=tuple(Plan(()) for _ in data.plans))
        dead = data._replace(
            plans=tuple(Plan(torch.zeros(4, 5, dtype=torch.int64), torch.zeros(4, 5) > 0) for _ in data.plans)
        )
        received = run.algorithm.method.share.take(message["shared"], data)
        for idle in (empty, dead):
            reply, state = run.algorithm.local(message, kept, idle)
            assert same_bits({"shared": reply.shared}, {"shared": received})
            assert same_bits(without_trained(state), without_trained(kept))
            assert reply.steps == 0
            assert reply.loss == 0


@every_method
def test_state_survives_storage(method: Method) -> None:
    def stored(state: State) -> State:
        return codec.decode(codec.encode(state), Path("memory"))

    half = finished(method, rounds=1)
    engine = Serial(half.algorithm, world.federation(), world.TRAINING)
    engine.kept = {client: stored(kept) for client, kept in half.engine.kept.items()}
    server, _ = advance(half.algorithm, engine, stored(half.server), range(1, world.ROUNDS))
    whole = finished(method)
    assert same_bits(server, whole.server)
    assert all(same_bits(kept, whole.engine.kept[client]) for client, kept in engine.kept.items())


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
