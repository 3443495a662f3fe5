"""Row 10: settings and data that make training diverge: exit 4, the last finite model kept, a hint given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import fedskew
from counting import Tally
from victims import small

from fedskew.store import checkpoint
from fedskew.store.reader import RunReader

RATE = "train__lr"
SETTINGS: tuple[tuple[str, dict[str, object]], ...] = (
    ("fedavg", {RATE: 1e3}),  # stays finite: its units die
    ("fedavg", {RATE: 1e6}),
    ("fedavg", {RATE: 1e38}),
    ("fedavg", {RATE: 1e3, "engine__name": "vectorised"}),
    ("fedavg", {RATE: 1e3, "engine__name": "pool", "engine__workers": 2}),
    ("fedavg", {RATE: 1e3, "dtype": "float64"}),
    ("fedavg", {RATE: 1e3, "evaluate__every": 100, "evaluate__personal": 0}),
    ("fedavg", {"train__weight_decay": 1e6}),  # the last step overflows after every loss was finite
    ("fedavg", {"train__weight_decay": 1e6, "evaluate__every": 100, "evaluate__personal": 0}),
    ("fedavg", {RATE: 1e3, "train__momentum": 0.99}),
    ("fedprox", {"method__Proximal__mu": 1e6}),
    ("scaffold", {RATE: 1e3}),
    ("feddyn", {RATE: 1e3}),
    ("fedlc", {RATE: 1e10}),
    ("fedabc", {RATE: 1e3}),
    ("fedova", {RATE: 1e5}),
    ("map", {RATE: 1e3}),
    ("pfedme", {RATE: 1e4}),
)


def diverges(config: Path, out: Path, place: Path) -> int:
    """Runs it and sees that it ends as it should; returns the rounds that were committed."""
    done = fedskew("run", str(config), "--out", str(out))
    assert done.code == 4, done
    assert "training diverged in round" in done.err
    assert "Lower train.lr, or set train.clip" in done.err
    assert "Traceback" not in done.err
    point, events = checkpoint.load(place), RunReader(place).events()
    assert "diverged" in [event["event"] for event in events]
    rounds = 0 if point is None else point.round + 1
    assert f"in round {rounds}:" in done.err
    if point is not None:
        assert all(bool(value.isfinite().all()) for tree in point.server.values() for value in tree.values())
        kept = [tree for state in point.kept.values() for tree in state.values()]
        assert all(bool(value.isfinite().all()) for tree in kept for value in tree.values())
    return rounds


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_settings(number: int, tmp_path: Path, tally: Tally) -> None:
    method, settings = SETTINGS[number]
    config = tmp_path / "config.toml"
    config.write_text(small(method, 6, **settings).toml())
    with tally.case():
        diverges(config, tmp_path / "runs", tmp_path / "runs" / method / "0")


@pytest.mark.parametrize("size", [1e15, 1e30])
def test_data(size: float, tmp_path: Path, tally: Tally) -> None:
    """Examples that are finite numbers, but absurd ones."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 16)).astype(np.float32), np.arange(200) % 10
    x[::7] *= size
    np.savez(tmp_path / "absurd.npz", x=x, y=y)
    data = {"data__name": "arrays", "data__path": str(tmp_path / "absurd.npz"), "data__normalise": False}
    config = tmp_path / "config.toml"
    config.write_text(small("fedavg", 6, **data).toml())
    with tally.case():
        diverges(config, tmp_path / "runs", tmp_path / "runs/fedavg/0")
