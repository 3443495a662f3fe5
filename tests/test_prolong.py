"""A long run that begins with a short one is the long run, byte for byte."""

from pathlib import Path
from typing import Any

import pytest

from fedskew import prolong, runs
from fedskew.config import Config, parse
from fedskew.store import layout


def config(rounds: int, method: str, name: str, **evaluate: int) -> Config:
    table: dict[str, Any] = {
        "name": name,
        "seeds": [3],
        "data": {"name": "digits"},
        "split": {"scheme": "labels", "clients": 5, "per_client": 2, "novel": 0.2},
        "model": {"name": "mlp"},
        "method": {"preset": method},
        "train": {"rounds": rounds, "participation": 0.5, "epochs": 1, "batch": 32, "lr": 0.05},
        "evaluate": {"every": 3, "personal": 5, **evaluate},
        "engine": {"name": "serial", "backend": "autograd"},
    }
    return parse(table, "test")


def trained(place: Path) -> Path:
    runs.carry_on(place)
    return place


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedper"])
def test_the_same_files_as_without_the_short_run(method: str, tmp_path: Path) -> None:
    short = trained(runs.begin(config(11, method, "short"), 3, tmp_path / "a"))
    long = config(22, method, "long")
    assert prolong.is_beginning(short, long, 3)
    gone_on = prolong.begin(short, long, 3, tmp_path / "a")
    assert runs.rounds_left(gone_on) == 11
    trained(gone_on)
    at_once = trained(runs.begin(long, 3, tmp_path / "b"))
    for name in (layout.METRICS, layout.CLIENTS, layout.CONFIG):
        assert (gone_on / name).read_bytes() == (at_once / name).read_bytes(), name
    states = [sorted(path.name for path in (run / layout.STATES).iterdir()) for run in (gone_on, at_once)]
    assert states[0] == states[1]


def test_a_run_that_was_cut_short_can_be_the_beginning(tmp_path: Path) -> None:
    def stop(_: Path, done: int, __: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    short, long = runs.begin(config(9, "fedavg", "short"), 3, tmp_path), config(12, "fedavg", "long")
    assert not prolong.is_beginning(short, long, 3)
    with pytest.raises(KeyboardInterrupt):
        runs.carry_on(short, stop)
    assert prolong.is_beginning(short, long, 3)
    assert runs.rounds_left(prolong.begin(short, long, 3, tmp_path)) == 8


@pytest.mark.parametrize(
    ("other", "seed"),
    [
        (config(27, "fedavg", "long", every=2), 3),
        (config(27, "fedprox", "long"), 3),
        (config(27, "fedavg", "long"), 4),
        (config(2, "fedavg", "long"), 3),
        (config(27, "fedavg", "long").changed({"engine.backend": "torch"}), 3),
    ],
)
def test_other_settings_are_no_beginning(other: Config, seed: int, tmp_path: Path) -> None:
    short = trained(runs.begin(config(2, "fedavg", "short"), 3, tmp_path))
    assert not prolong.is_beginning(short, other, seed)
    assert not prolong.is_beginning(tmp_path / "nowhere", other, seed)


def test_a_schedule_over_all_rounds_begins_at_the_beginning(tmp_path: Path) -> None:
    short = trained(runs.begin(config(2, "fedphp", "short"), 3, tmp_path))
    assert not prolong.is_beginning(short, config(9, "fedphp", "long"), 3)
