"""Trackers get every number of every round, and none of them can hurt a run."""

import importlib
import json
import sys
from pathlib import Path

import pytest
from command import fedskew, works

from fedskew import track
from fedskew.config import load
from fedskew.errors import ConfigError
from fedskew.runs import begin, carry_on
from fedskew.sinks import KINDS, Begin, Values
from fedskew.store.reader import RunReader
from fedskew.track import Tracker, Trackers

SMALL = """
[split]
scheme = "labels"
clients = 5
per_client = 2
[train]
rounds = 3
epochs = 1
"""


class Remember:
    """A sink that keeps what it is told; it may break in a round, or when it is closed."""

    def __init__(self, breaks: int = 0, breaks_at_the_end: bool = False) -> None:
        self.breaks, self.breaks_at_the_end = breaks, breaks_at_the_end
        self.told: list[tuple[int, Values]] = []
        self.closed = False

    def log(self, round: int, values: Values) -> None:
        if round == self.breaks:
            raise RuntimeError("the dashboard is away")
        self.told.append((round, values))

    def close(self) -> None:
        if self.breaks_at_the_end:
            raise ConnectionError("no answer")
        self.closed = True


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(SMALL, encoding="utf-8")
    return tmp_path


def train(trackers: Trackers, seed: int = 0) -> Path:
    place = begin(load(Path("c.toml")), seed, Path("runs"))
    with trackers:
        carry_on(place, lambda where, done, rounds: trackers.follow(where))
    return place


def test_every_number_of_every_round_arrives_once(here: Path) -> None:
    sink = Remember()
    place = train(Trackers([Tracker("mine:x", lambda run: sink)]))
    records = RunReader(place).metrics()
    assert [round for round, _ in sink.told] == [1, 2, 3]
    for record, (_, values) in zip(records, sink.told, strict=True):
        assert values["train.loss"] == record["train.loss"]
        assert values["global.per_class/4"] == record["global.per_class"][4]
        assert all(isinstance(value, float) for value in values.values())
        assert not {"round", "participants"} & values.keys()
    assert sink.closed


def test_a_sink_is_told_whose_run_it_gets(here: Path) -> None:
    begun: list[Begin] = []

    def opened(run: Begin) -> Remember:
        begun.append(run)
        return Remember()

    train(Trackers([Tracker("mine:x", opened)]), seed=4)
    assert [(run.name, run.seed, run.title) for run in begun] == [("run", 4, "run seed 4")]
    assert begun[0].settings["train"]["rounds"] == 3


def test_one_that_fails_is_left_alone_and_the_run_says_so(here: Path) -> None:
    sound, frail, late = Remember(), Remember(breaks=2), Remember(breaks_at_the_end=True)
    trackers = Trackers(
        [
            Tracker("a:x", lambda run: frail),
            Tracker("b:x", lambda run: sound),
            Tracker("c:x", lambda run: late),
            Tracker("d:x", lambda run: 1 / 0),  # type: ignore[arg-type, return-value]
        ]
    )
    place = train(trackers)
    assert [round for round, _ in frail.told] == [1]
    assert [round for round, _ in sound.told] == [1, 2, 3]
    assert RunReader(place).round() == 2
    why = next(event["why"] for event in RunReader(place).events() if event["event"] == track.EVENT)
    assert why == [
        "d:x: ZeroDivisionError: division by zero",
        "a:x: RuntimeError: the dashboard is away",
        "c:x: ConnectionError: no answer",
    ]


def test_a_run_whose_metrics_cannot_be_read_is_not_ended_by_that(here: Path) -> None:
    trackers = Trackers([Tracker("mine:x", lambda run: Remember())])
    with trackers:
        trackers.follow(Path("nowhere"))
    assert len(trackers.failures[Path("nowhere")]) == 1


def test_without_trackers_nothing_is_read(here: Path) -> None:
    with Trackers([]) as trackers:
        trackers.follow(Path("nowhere"))
    assert not trackers.failures


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        ("tensorbord:x", "Did you mean 'tensorboard'"),
        ("tensorboard", "say where to"),
        ("wandb:", "say where to"),
    ],
)
def test_a_wrong_spec_is_refused(spec: str, holds: str) -> None:
    with pytest.raises(ConfigError, match=holds):
        track.open_all([spec])


def test_one_that_is_not_installed_is_refused_before_anything_runs(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    done = fedskew("run", "c.toml", "--track", "mlflow:x", "--workers", "1")
    assert done.code == 2
    assert "fedskew[track]" in done.err
    assert not Path("runs").exists()


def test_numbers() -> None:
    record = {"round": 1, "a": 1, "b": None, "x.per_class": [0.5, None], "list": [1], "s": "t"}
    assert track.numbers(record) == {"a": 1.0, "x.per_class/0": 0.5}


def have(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (extra `track`)")


def test_tensorboard(here: Path) -> None:
    have("tensorboard")
    works("run", "c.toml", "--track", "tensorboard:board", "--workers", "1")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator("board/run/0").Reload()
    told = [(event.step, event.value) for event in events.Scalars("global/accuracy")]
    records = RunReader(Path("runs/run/0")).metrics()
    assert [step for step, _ in told] == [1, 2, 3]
    assert [value for _, value in told] == pytest.approx([record["global.accuracy"] for record in records])


def test_weights_and_biases_offline(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(here))
    monkeypatch.setenv("WANDB_SILENT", "true")
    works("run", "c.toml", "--seeds", "0:2", "--track", "wandb:skew", "--workers", "1")
    assert len(list(here.glob("wandb/offline-run-*/*.wandb"))) == 2


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of MLflow, about its stores
def test_mlflow_in_a_folder(here: Path) -> None:
    have("mlflow")
    works("run", "c.toml", "--track", "mlflow:flow", "--workers", "1")
    (found,) = here.glob("flow/*/*/metrics/global.accuracy")
    told = [line.split() for line in found.read_text().splitlines()]
    records = RunReader(Path("runs/run/0")).metrics()
    assert [int(step) for _, _, step in told] == [1, 2, 3]
    assert [float(value) for _, value, _ in told] == pytest.approx([r["global.accuracy"] for r in records])
    (rate,) = here.glob("flow/*/*/params/train.lr")
    assert json.loads(rate.read_text()) == 0.05


def test_every_kind_has_a_package() -> None:
    assert KINDS.keys() == track.PACKAGES.keys()
