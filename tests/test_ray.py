"""Ray gives the bits of the serial engine, also when its actors die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from references import world
from references.runs import PRESETS, algorithm

pytest.importorskip("ray", reason="the extra `ray` is not installed")

import ray
from bad_replies import BAD, entry, faulty
from command import fedskew

from fedskew.algorithm import Algorithm
from fedskew.engines.choose import Choice, engine
from fedskew.engines.engine import Engine
from fedskew.engines.feed import Feed
from fedskew.engines.ray import Corrected, Home, Ray, connect
from fedskew.engines.serial import Serial
from fedskew.examine import Exam
from fedskew.gate import Gate, Limits
from fedskew.store import checkpoint, codec
from fedskew.store.reader import RunReader
from fedskew.tree import State

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its sockets to the end of the process
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SWEEP = """
name = "sweep"
split = { scheme = "labels", clients = 10, per_client = 2 }
model = { name = "mlp", hidden = [8] }
train = { rounds = 2, epochs = 1 }
engine = { backend = "autograd" }
"""
SOME = ("fedavg", "scaffold", "fedova", "map", "grpfed")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    connect(2)
    yield
    ray.shutdown()


def rounds(bound: Algorithm, machine: Engine, numbers: range, server: State | None = None) -> State:
    server = bound.init() if server is None else server
    for t in numbers:
        ids = world.federation().participants(world.SEED, t, world.RATIO)
        replies, cohort = machine.exchange(bound.message(server, t), ids, t)
        server = bound.step(server, replies, cohort)
    return server


def serial(bound: Algorithm, numbers: range = range(world.ROUNDS)) -> tuple[State, Serial]:
    machine = Serial(bound, world.federation(), world.TRAINING)
    return rounds(bound, machine, numbers), machine


def same(a: Engine, b: Engine) -> bool:
    return set(a.kept) == set(b.kept) and all(
        codec.encode(a.kept[client]) == codec.encode(b.kept[client]) for client in a.kept
    )


EVERY = [pytest.param(name, marks=[] if name in SOME else pytest.mark.slow) for name in PRESETS]


@pytest.mark.parametrize("method", EVERY)
def test_ray_gives_the_serial_bits(method: str) -> None:
    bound = algorithm(PRESETS[method], dtype=torch.float32)
    machine = Ray(bound, world.federation(), world.TRAINING, workers=2, block=2)
    server = rounds(bound, machine, range(world.ROUNDS))
    expected, reference = serial(bound)
    assert codec.encode(server) == codec.encode(expected)
    assert same(machine, reference)
    ids = list(reference.kept)
    exam = Exam((bound.method.home,), whole=False)
    for ours, theirs in zip(
        machine.examine(server, ids, exam), reference.examine(server, ids, exam), strict=True
    ):
        assert torch.equal(ours.home, theirs.home)
        assert ours.seen
    machine.close()


@pytest.mark.parametrize("method", PRESETS)
def test_a_home_gives_the_serial_bits(method: str) -> None:
    """What an actor runs, without the actor."""
    bound = algorithm(PRESETS[method], dtype=torch.float32)
    federation = world.federation()
    pool = Feed.of(bound, federation, world.TRAINING).x.numpy()
    home = Home(bound, federation, world.TRAINING, pool, "autograd")
    message, ids = bound.message(bound.init(), 0), [0, world.SINGLE_LABEL, 5]
    replies, *states = home.train(message, 0, ids, Corrected([], []))
    reference = Serial(bound, federation, world.TRAINING)
    reference.exchange(message, ids, 0)
    assert [codec.encode(state) for state in states] == [codec.encode(reference.kept[k]) for k in ids]
    assert len(replies) == len(ids)


def test_actors_that_die_are_replaced_and_their_blocks_computed_again() -> None:
    bound = algorithm(PRESETS["scaffold"], dtype=torch.float32)
    machine = Ray(bound, world.federation(), world.TRAINING, workers=2, block=2)
    server = rounds(bound, machine, range(1))
    for home in machine._homes:
        number = ray.get(home.__ray_call__.remote(lambda self: os.getpid()))
        os.kill(number, signal.SIGKILL)  # a process that this test has started
    server = rounds(bound, machine, range(1, world.ROUNDS), server)
    expected, reference = serial(bound)
    assert codec.encode(server) == codec.encode(expected)
    assert same(machine, reference)
    machine.close()


def test_a_run_is_taken_up_with_the_states_of_a_checkpoint() -> None:
    bound = algorithm(PRESETS["scaffold"], dtype=torch.float32)
    half, before = serial(bound, range(1))
    machine = Ray(bound, world.federation(), world.TRAINING, workers=2)
    machine.kept.update(before.kept)
    server = rounds(bound, machine, range(1, world.ROUNDS), half)
    expected, reference = serial(bound)
    assert codec.encode(server) == codec.encode(expected)
    assert same(machine, reference)
    machine.close()


def test_a_refused_client_keeps_its_old_state() -> None:
    bound = algorithm(PRESETS["scaffold"], dtype=torch.float32)
    gate = Gate.of(bound, (1, 3, 3), Limits())
    machine = Ray(faulty(bound, entry(torch.nan)), world.federation(), world.TRAINING, workers=2, gate=gate)
    reference = Serial(faulty(bound, entry(torch.nan)), world.federation(), world.TRAINING, gate)
    servers = []
    for engine_ in (machine, reference):
        server = bound.init()
        for t in range(2):
            replies, cohort = engine_.exchange(bound.message(server, t), (0, BAD, 4), t)
            assert cohort.ids == (0, 4)
            server = bound.step(server, replies, cohort)
        servers.append(codec.encode(server))
    assert servers[0] == servers[1]
    assert same(machine, reference)
    machine.close()


def test_the_engine_can_be_chosen() -> None:
    bound = algorithm(PRESETS["fedavg"], dtype=torch.float32)
    feed = Feed.of(bound, world.federation(), world.TRAINING)
    machine = engine(Choice("ray", workers=1, backend="autograd"), bound, feed)
    assert isinstance(machine, Ray)
    assert codec.encode(rounds(bound, machine, range(2))) == codec.encode(serial(bound, range(2))[0])
    machine.close()


def test_a_sweep_on_ray_gives_the_serial_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    for name in ("ray", "serial"):
        chosen = ["--engine", name, "--out", str(tmp_path / name), *(["--workers", "1"] * (name == "serial"))]
        said = fedskew("compare", str(path), "--methods", "fedavg,scaffold", *chosen)
        assert said.code == 0, said.err
    for method in ("fedavg", "scaffold"):
        ours, theirs = (
            checkpoint.load(tmp_path / name / f"sweep-{method}" / "0") for name in ("ray", "serial")
        )
        assert codec.encode(ours.server) == codec.encode(theirs.server)
        assert RunReader(tmp_path / "ray" / f"sweep-{method}" / "0").config()["engine"]["name"] == "ray"


def test_a_home_forgets_a_state_that_did_not_count() -> None:
    bound, federation = algorithm(PRESETS["fedphp"]), world.federation()
    home = Home(
        bound, federation, world.TRAINING, Feed.of(bound, federation, world.TRAINING).x.numpy(), "autograd"
    )
    message = bound.message(bound.init(), 0)
    home.train(message, 0, [0], Corrected([], []))
    _, twice = home.train(message, 1, [0], Corrected([], []))
    _, once = home.train(message, 1, [0], Corrected([], [0]))
    assert (float(twice["Inherit"]["times"]), float(once["Inherit"]["times"])) == (2, 1)


def test_who_trains_nothing_needs_no_home() -> None:
    bound, federation = algorithm(PRESETS["fedavg"]), world.federation()
    nothing = federation.partition.train[0][:0]
    empty = federation.partition._replace(train=(*federation.partition.train[:-1], nothing))
    novel = replace(federation, partition=empty._replace(novel=(federation.clients - 1,)))
    machine = Ray(bound, novel, world.TRAINING, 1)
    assert machine.exchange(bound.message(bound.init(), 0), (0,), 0)[1].ids == (0,)
    machine.close()
