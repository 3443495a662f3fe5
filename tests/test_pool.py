"""The pool gives the serial engine's bits, for any number of workers, whatever happens to them."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from references import world
from references.runs import PRESETS, advance, algorithm
from torch import nn

from fedskew import Experiment, Labels, Training
from fedskew.algorithm import Algorithm
from fedskew.data.federation import Federation
from fedskew.engines import crew
from fedskew.engines.choose import Choice
from fedskew.engines.crew import WorkerError
from fedskew.engines.engine import Engine
from fedskew.engines.pool import Pool
from fedskew.engines.serial import Serial
from fedskew.engines.shelf import Shelf
from fedskew.engines.worker import shares
from fedskew.errors import ConfigError, DivergedError
from fedskew.examine import Exam
from fedskew.kernels import Backend
from fedskew.models.module import factory
from fedskew.step import SGD
from fedskew.store import codec
from fedskew.tree import State
from fedskew.values import Model, Out

METHODS = ("fedavg", "scaffold", "map", "grpfed", "fedova")
IDS = (0, 1, 3, 5)


def experiment(method: str, name: str, workers: int = 0) -> Experiment:
    return Experiment(
        split=Labels(clients=10, per_client=2),
        method=method,
        rounds=3,
        training=Training(epochs=1, batch=32),
        model_options={"hidden": (8,)},
        engine=Choice(name=name, workers=workers, backend="autograd"),
    )


def kept_bits(engine: Engine) -> list[tuple[int, bytes]]:
    return [(client, codec.encode(engine.kept[client])) for client in sorted(engine.kept)]


def outcome(method: str, name: str, workers: int = 0) -> tuple[object, ...]:
    with experiment(method, name, workers).session(0) as session:
        steps = list(session.rounds())
        kept = kept_bits(session.engine)
    return codec.encode(steps[-1].round.server), kept, [repr(step.record) for step in steps]


@contextmanager
def pool(bound: Algorithm, workers: int = 2, patience: float = 60.0) -> Iterator[Pool]:
    made = Pool(bound, world.federation(), world.TRAINING, workers, patience=patience)
    try:
        yield made
    finally:
        made.close()


def one_round(bound: Algorithm, engine: Engine, number: int = 0) -> bytes:
    server = bound.init()
    replies, cohort = engine.exchange(bound.message(server, number), IDS, number)
    assert replies is not None
    return codec.encode(bound.step(server, replies, cohort))


def expected(bound: Algorithm) -> tuple[bytes, list[tuple[int, bytes]]]:
    serial = Serial(bound, world.federation(), world.TRAINING)
    return one_round(bound, serial), kept_bits(serial)


def meddling(bound: Algorithm, before: str) -> Algorithm:
    """The algorithm with a network that calls one of the functions below before every pass."""
    call = globals()[before]

    def forward(params: dict[str, torch.Tensor], x: torch.Tensor, train: bool) -> Out:
        call()
        return bound.model.forward(params, x, train)

    model: Model = bound.model._replace(forward=forward)
    return replace(bound, model=model)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_the_first_time() -> None:
    mark = Path(os.environ["FEDSKEW_TEST_MARK"])
    if not mark.exists():
        mark.touch()
        die()


def stall_the_first_time() -> None:
    mark = Path(os.environ["FEDSKEW_TEST_MARK"])
    if not mark.exists():
        mark.touch()
        time.sleep(60)


def stumble() -> None:
    raise ZeroDivisionError("a mistake in a part")


def diverge() -> None:
    raise DivergedError("the loss is not finite")


@pytest.mark.parametrize("method", METHODS)
def test_any_number_of_workers_gives_the_same_bits(method: str) -> None:
    torch.set_num_threads(1)
    serial = outcome(method, "serial")
    for workers in (1, 2, 4):
        assert outcome(method, "pool", workers) == serial, workers


def plain(outputs: int) -> nn.Module:
    """A network that every backend can run."""
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 2, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, outputs)),
    )


def three_rounds(method: str, backend: Backend, workers: int | None) -> tuple[bytes, object]:
    """The bits of a run with so many workers; None for the serial engine."""
    preset = PRESETS[method]
    model = preset.network.build(factory(plain), world.CLASSES)
    bound = Algorithm(preset, model, SGD(0.05, 0.9, 0.01), len(world.COUNTS), seed=world.SEED)
    sides = bound, world.federation(), world.TRAINING
    engine: Engine = Serial(*sides, backend=backend) if workers is None else Pool(*sides, workers, backend)
    try:
        server, _ = advance(bound, engine, bound.init(), range(world.ROUNDS))
        return codec.encode(server), kept_bits(engine)
    finally:
        engine.close()


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("method", METHODS)
def test_fast_backends_give_the_same_bits_in_workers(method: str, backend: Backend) -> None:
    torch.set_num_threads(1)
    assert three_rounds(method, backend, 2) == three_rounds(method, backend, None)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["autograd", "torch", "native"])
@pytest.mark.parametrize("method", PRESETS)
def test_every_preset_backend_and_number_of_workers_gives_the_same_bits(
    method: str, backend: Backend
) -> None:
    """With `test_engines_agree` and `test_every_preset_on_every_backend`, which compare numbers, all are compared."""
    torch.set_num_threads(1)
    serial = three_rounds(method, backend, None)
    for workers in (1, 2, 4):
        assert three_rounds(method, backend, workers) == serial, workers


def test_an_interrupt_is_not_for_the_process_that_workers_come_from() -> None:
    script = (
        "import signal; from multiprocessing import forkserver; from fedskew import parallel; parallel.prepare(); "
        "assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()); "
        "print(open(f'/proc/{forkserver._forkserver._forkserver_pid}/status').read())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    masks = re.findall(r"Sig(?:Ign|Blk):\t(\w+)", done.stdout)
    assert any(int(mask, 16) & 1 << (signal.SIGINT - 1) for mask in masks)


def test_a_worker_killed_between_rounds_is_replaced() -> None:
    torch.set_num_threads(1)
    with experiment("scaffold", "pool", 2).session(0) as session:
        assert isinstance(session.engine, Pool)
        seen = []
        for step in session.rounds():
            seen.append(codec.encode(step.round.server))
            os.kill(session.engine.pids()[0], signal.SIGKILL)
    assert seen[-1] == outcome("scaffold", "serial")[0]


@pytest.mark.parametrize("what", ["die_the_first_time", "stall_the_first_time"])
def test_a_worker_that_fails_in_a_round_changes_nothing(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSKEW_TEST_MARK", str(tmp_path / "mark"))
    bound = algorithm(PRESETS["scaffold"])
    with pool(meddling(bound, what), patience=1.5) as engine:
        found = one_round(bound, engine), kept_bits(engine)
    assert (tmp_path / "mark").exists()
    assert found == expected(bound)


def test_a_client_that_always_kills_its_worker_is_an_error_and_the_pool_stays_usable() -> None:
    bound = algorithm(PRESETS["fedavg"])
    with pool(meddling(bound, "die"), workers=1) as engine:
        with pytest.raises(WorkerError, match=rf"client \d.*code -9, {crew.ATTEMPTS} times"):
            one_round(bound, engine)
        assert not engine.kept
        assert len(engine.pids()) == 1


@pytest.mark.parametrize(("what", "error"), [("stumble", WorkerError), ("diverge", DivergedError)])
def test_an_error_in_a_worker_arrives_here(what: str, error: type[Exception]) -> None:
    bound = algorithm(PRESETS["fedavg"])
    with pool(meddling(bound, what)) as engine:
        with pytest.raises(error, match=r"a mistake in a part|the loss is not finite"):
            one_round(bound, engine)
        assert not engine.kept, "a round that failed leaves no trace"


def test_examination_where_the_states_are() -> None:
    bound = algorithm(PRESETS["map"])
    serial = Serial(bound, world.federation(), world.TRAINING)
    exam = Exam(("inherited", "trained"), whole=False)
    with pool(bound) as engine:
        one_round(bound, engine)
        one_round(bound, serial)
        found, wanted = (machine.examine(bound.init(), range(8), exam) for machine in (engine, serial))
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.equal(ours.home, theirs.home)
        assert (ours.whole, ours.ballot, ours.seen) == (theirs.whole, theirs.ballot, theirs.seen)
        assert repr(ours.told) == repr(theirs.told)


@pytest.mark.parametrize("method", ["fedavg", "grpfed", "fedova"])
@pytest.mark.parametrize("count", [1, 1000, 2600, 4001])
def test_workers_share_the_examples_that_the_servers_network_answers(method: str, count: int) -> None:
    bound = algorithm(PRESETS[method])
    examples = torch.randint(len(world.federation().data.y), (count,))
    serial = Serial(bound, world.federation(), world.TRAINING)
    wanted = serial.answer(bound.init(), examples)
    assert torch.equal(wanted, bound.predict(bound.initial, serial.feed.x[examples]))
    with pool(bound, workers=3) as engine:
        assert torch.equal(engine.answer(bound.init(), examples), wanted)


def test_a_worker_that_dies_over_test_examples_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, examples = algorithm(PRESETS["fedavg"]), torch.arange(20).repeat(100)
    monkeypatch.setenv("FEDSKEW_TEST_MARK", str(tmp_path / "mark"))
    with pool(meddling(bound, "die_the_first_time")) as engine:
        found = engine.answer(bound.init(), examples)
    assert (tmp_path / "mark").exists()
    assert torch.equal(found, bound.predict(bound.initial, engine.feed.x[examples]))


def test_states_of_a_checkpoint_are_taken_up() -> None:
    bound = algorithm(PRESETS["scaffold"])
    serial = Serial(bound, world.federation(), world.TRAINING)
    one_round(bound, serial)
    with pool(bound) as engine:
        engine.kept.update(serial.kept)
        assert kept_bits(engine) == kept_bits(serial)
        assert one_round(bound, engine, 1) == one_round(bound, serial, 1)
        assert kept_bits(engine) == kept_bits(serial)


def recipe(federation: Federation) -> Algorithm:
    """At the top of a module, so that another process finds it."""
    return algorithm(PRESETS["scaffold"])


@pytest.mark.slow
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_workers_that_inherit_nothing(start: str) -> None:
    bound = algorithm(PRESETS["scaffold"])
    engine = Pool(bound, world.federation(), world.TRAINING, 2, start=start, recipe=recipe)
    found = one_round(bound, engine), kept_bits(engine)
    engine.close()
    assert found == expected(bound)


def test_workers_that_inherit_nothing_need_a_recipe() -> None:
    with pytest.raises(ConfigError, match="recipe"):
        Pool(algorithm(PRESETS["fedavg"]), world.federation(), world.TRAINING, start="spawn")


def test_states_beyond_the_limit_go_to_disk() -> None:
    def state(value: float) -> State:
        return {"private": {"w": torch.full((100,), value)}}

    shelf = Shelf(limit=1000)
    memory, disk = shelf.folders
    for client in range(4):
        shelf[client] = state(client)
    assert [shelf.path(client).parent for client in range(4)] == [memory, memory, disk, disk]  # type: ignore[union-attr]
    shelf[0] = state(7.0)
    del shelf[1]
    assert sorted(shelf) == [0, 2, 3]
    assert [float(shelf[client]["private"]["w"][0]) for client in sorted(shelf)] == [7.0, 2.0, 3.0]
    shelf[1] = state(1.0)
    assert shelf.path(1).parent == memory, "room that was given back is used again"  # type: ignore[union-attr]
    with pytest.raises(KeyError):
        shelf[9]
    shelf.close()
    assert not memory.exists()
    assert not disk.exists()


@pytest.mark.parametrize("loads", [[5], [9, 1, 1], [3] * 100, [100, 50, *[1] * 500], [0, 0]])
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_jobs_hold_every_client_once_and_the_largest_first(loads: list[int], workers: int) -> None:
    jobs = shares(loads, workers)
    assert [i for job in jobs for i in job] == list(range(len(loads)))
    totals = [sum(loads[i] for i in job) for job in jobs]
    left = sum(loads)
    for job, total in zip(jobs, totals, strict=True):
        assert len(job) == 1 or total <= left / (4 * workers)
        left -= total


ORPHAN = """
import sys, time
sys.path.insert(0, {tests!r})
from references import world
from references.runs import PRESETS, algorithm
from fedskew.engines.pool import Pool
pool = Pool(algorithm(PRESETS["fedavg"]), world.federation(), world.TRAINING, 2)
print(*pool.pids(), pool.kept.folders[0], flush=True)
time.sleep(60)
"""


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
def test_workers_end_with_their_parent() -> None:
    script = ORPHAN.format(tests=str(Path(__file__).parent))
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    first, second, folder = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 30
    while time.monotonic() < end and not (gone(int(first)) and gone(int(second))):
        time.sleep(0.1)
    assert gone(int(first))
    assert gone(int(second))
    assert not Path(folder).exists()


def test_a_closed_pool_leaves_nothing_behind() -> None:
    with pool(algorithm(PRESETS["fedavg"])) as engine:
        pids, folders = engine.pids(), engine.kept.folders
        assert all(folder.is_dir() for folder in folders)
    assert all(gone(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)


def test_states_beyond_the_memory_go_to_the_disk_within_a_round() -> None:
    bound, federation = algorithm(PRESETS["fedphp"]), world.federation()
    with closing(Pool(bound, federation, world.TRAINING, 1)) as engine:
        size = engine._size
    with closing(Pool(bound, federation, world.TRAINING, 1, memory=2 * size)) as engine:
        advance(bound, engine, bound.init(), range(1), (0, 1, 2, 3))
        folders = [engine.kept.path(client).parent for client in range(4)]
        assert [engine.kept.folders.index(folder) for folder in folders] == [0, 0, 1, 1]
