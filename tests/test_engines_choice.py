"""`auto` measures, picks what is fastest here, and writes down what it picked."""

import math
import multiprocessing
import queue
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fedskew import Experiment, Labels, Training, evaluate, parallel, runs
from fedskew.config import parse
from fedskew.engines import choose
from fedskew.engines.choose import Choice, resolve
from fedskew.engines.feed import Feed
from fedskew.engines.pool import Pool
from fedskew.engines.quarters import flushed, one_thread, quarters
from fedskew.engines.serial import Serial
from fedskew.engines.vectorised import Vectorised
from fedskew.errors import ConfigError
from fedskew.gate import Limits
from fedskew.kernels import Backend, current
from fedskew.parts import CrossEntropy
from fedskew.privacy import Privacy

Times = dict[str, float]


def feed(model: Any = "mlp", epochs: int = 1) -> Feed:
    plan = Experiment(
        split=Labels(clients=10, per_client=2), model=model, training=Training(epochs=epochs, batch=32)
    )
    federation = plan.federation(plan.dataset(), 0)
    return Feed.of(plan.algorithm(federation, 0), federation, plan.training)


def normalised(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, outputs))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with two cores on which steps take as long as the test says."""

    def of(times: Times, blocks: float = 1.0) -> None:
        monkeypatch.setattr(choose, "cores", lambda: 2)
        monkeypatch.setattr(choose, "prepare", lambda backend: "native" in times)
        monkeypatch.setattr(choose, "ready", lambda: False)
        monkeypatch.setattr(choose, "_steps", lambda feed, backends: {b: times[b] for b in backends})
        monkeypatch.setattr(choose, "_vectorised", lambda choice, feed: blocks)

    return of


def picked(made: Feed, choice: Choice = Choice()) -> tuple[str, str]:  # noqa: B008  (frozen)
    found = resolve(choice, made.algorithm, made)
    return found.name, found.backend


def test_long_steps_go_to_the_pool_with_the_fastest_backend(world: Any) -> None:
    world({"autograd": 0.02, "native": 0.005})
    assert picked(feed()) == ("pool", "native")
    world({"autograd": 0.02, "torch": 0.03})
    assert picked(feed()) == ("pool", "autograd")


def test_short_clients_are_not_worth_processes(world: Any) -> None:
    world({"autograd": 0.0012, "native": 0.0002})
    assert picked(feed()) == ("serial", "native")


def test_small_steps_may_be_vectorised_but_batch_norm_never(world: Any) -> None:
    world({"autograd": 0.0005}, blocks=0.0001)
    assert picked(feed()) == ("vectorised", "autograd")
    assert picked(feed(normalised)) == ("serial", "autograd")
    world({"autograd": 0.0005}, blocks=0.001)
    assert picked(feed()) == ("serial", "autograd")


def test_a_part_of_somebody_else_is_not_trained_in_padded_blocks(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loss may not know of padding."""
    world({"autograd": 0.0005}, blocks=0.0001)
    monkeypatch.setattr(CrossEntropy, "__module__", "mine")
    assert picked(feed()) == ("serial", "autograd")
    assert picked(feed(), Choice("vectorised")) == ("vectorised", "autograd")


def test_what_is_set_stays(world: Any) -> None:
    world({"autograd": 0.02, "native": 0.005, "torch": 0.01})
    assert picked(feed(), Choice("serial")) == ("serial", "native")
    assert picked(feed(), Choice(backend="torch")) == ("pool", "torch")
    assert picked(feed(), Choice("vectorised")) == ("vectorised", "autograd")
    told = Choice("pool", 3, 7, "torch")
    assert resolve(told, feed().algorithm, feed()) == told


def test_one_core_has_no_use_for_a_pool(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world({"autograd": 0.02, "native": 0.005})
    monkeypatch.setattr(choose, "cores", lambda: 1)
    assert picked(feed()) == ("serial", "native")


def test_a_process_that_may_have_no_children_takes_clients_in_turn(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world({"autograd": 0.02, "native": 0.005})
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert picked(feed()) == ("serial", "native")
    made = feed()
    assert isinstance(choose.engine(Choice("pool", 2, backend="autograd"), made.algorithm, made), Serial)


@pytest.mark.parametrize(("name", "kind"), [("serial", Serial), ("pool", Pool), ("vectorised", Vectorised)])
def test_every_choice_is_an_engine(name: Any, kind: type) -> None:
    made = feed()
    machine = choose.engine(Choice(name, 1, backend="autograd"), made.algorithm, made)
    machine.close()
    assert isinstance(machine, kind)


@pytest.mark.parametrize("backend", ["autograd", "torch"])
def test_the_server_model_is_evaluated_on_the_kernels_of_the_engine(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Backend] = []
    evaluated = evaluate.answers

    def noted(*asked: Any) -> Any:
        used.append(current())
        return evaluated(*asked)

    monkeypatch.setattr(evaluate, "answers", noted)
    Experiment(rounds=1, engine=Choice("serial", backend=backend)).fit()
    assert set(used) == {backend}
    assert current() == "autograd"


def test_candidates_take_turns_and_the_shortest_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy for a moment must not decide."""
    clock, turns = [0.0], []
    spent = {"a": iter([9, 1, 5, 5, 5, 5]), "b": iter([9, 4, 2, 4, 4, 4])}

    def run(name: str) -> None:
        turns.append(name)
        clock[0] += next(spent[name]) / 100

    monkeypatch.setattr(choose.time, "perf_counter", lambda: clock[0])
    found = choose._seconds(("a", "b"), run)
    assert found == pytest.approx({"a": 0.01, "b": 0.02})
    assert turns == ["a", "b"] * 6


def test_measuring_for_real_leaves_no_trace() -> None:
    """A choice is made, of what there is, and the algorithm trains from it as if nothing had been tried."""
    made = feed()
    before = {name: value.clone() for name, value in made.algorithm.initial.items()}
    found = resolve(Choice(), made.algorithm, made)
    assert found.name in ("serial", "pool", "vectorised")
    assert found.backend in ("autograd", "torch", "native")
    assert all(torch.equal(before[name], value) for name, value in made.algorithm.initial.items())


def test_what_was_picked_is_in_the_resolved_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Choice("vectorised", 0, 5, "autograd")
    monkeypatch.setattr(
        "fedskew.experiment.resolve", lambda choice, algorithm, feed: replace(chosen, block=choice.block)
    )
    split = {"scheme": "labels", "clients": 10, "per_client": 2}
    told = parse({"engine": {"block": 5}, "split": split}, "a test")
    place = runs.begin(told, 0, tmp_path)
    written = (place / "config.toml").read_text(encoding="utf-8")
    assert 'name = "vectorised"' in written
    assert "block = 5" in written
    assert 'backend = "autograd"' in written
    assert '"auto"' not in written.split("[engine]")[1].split("[")[0]


@pytest.mark.parametrize(
    ("made", "holds"),
    [
        (lambda: Choice("vectorized"), "Choice.name = 'vectorized'"),
        (lambda: Choice(block=0), "Choice.block = 0"),
        (lambda: evaluate.Timetable(every=0), "Timetable.every = 0"),
        (lambda: Privacy("Central"), "Privacy.kind = 'Central'"),
        (lambda: Privacy("local", delta=1.0), "Privacy.delta = 1.0"),
    ],
)
def test_settings_made_in_python_are_checked(made: Callable[[], object], holds: str) -> None:
    with pytest.raises(ConfigError, match=holds):
        made()


def test_more_good_replies_than_clients_are_asked() -> None:
    plan = Experiment(split=Labels(clients=5, per_client=2), participation=0.5, gate=Limits(minimum=4))
    with pytest.raises(ConfigError, match="a round asks no more than 3 clients"):
        plan.session(0)


def test_a_run_that_breaks_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(place: Path, tell: parallel.Tell) -> None:
        if place.name == "a":
            raise RuntimeError("no memory left")
        tell(parallel.News(place, 1, 1))

    told: list[parallel.News] = []
    todo, news = queue.Queue[Path | None](), queue.Queue[None]()
    for place in (Path("a"), Path("b"), None):
        todo.put(place)
    monkeypatch.setattr(parallel, "_one", breaks)
    monkeypatch.setattr(parallel, "_tell", lambda _, said: told.append(said))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with one_thread():
        parallel._worker(todo, news)
    assert [(said.place.name, said.error is None) for said in told] == [("a", False), ("b", True)]
    assert "no memory left" in str(told[0].error)


def test_a_server_that_does_not_know_what_clients_hold_has_no_groups() -> None:
    marks = torch.tensor([[[8, 2], [1, 9]], [[8, 2], [1, 9]]])
    found = evaluate._clients(marks, marks, torch.tensor([[0, 0], [5, 0]]), torch.tensor([True, True]))
    assert (found["majority"], found["missing"]) == (0.8, 0.9)
    untold = evaluate._clients(marks, marks, torch.zeros(2, 2, dtype=torch.int64), torch.tensor([True, True]))
    assert math.isnan(untold["missing"])


def test_tiny_numbers_count_as_zero_where_clients_run_and_nowhere_else() -> None:
    def flushes() -> bool:
        return (torch.tensor(1e-40) * 1).item() == 0

    assert not flushes()
    with quarters("autograd"):
        assert flushes()
        with flushed():
            assert flushes()
        assert flushes()
    assert not flushes()
