"""Row 8: a byte more, less or other in any file of a run or a partition is noticed before it is believed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from counting import Tally, part_of
from store_run import LAST, mutate, result, train

from fedskew.data import artefact, partition
from fedskew.errors import DataError, DiskError
from fedskew.store import checkpoint, codec, disk, layout
from fedskew.store.reader import RunReader
from fedskew.store.run import RunStore

OUTCOMES = ("refused", "fell back", "previous lost", "tail dropped")
AGAIN = 40  # every so many cases the run also goes on, to the bytes it should have


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for the real disk."""
    monkeypatch.setattr(disk, "fsync", lambda descriptor: None)
    monkeypatch.setattr(disk, "sync_folder", lambda path: None)


def go_on(folder: Path) -> None:
    """Two rounds more, after which nothing that was damaged is kept."""
    with RunStore.open(folder) as store:
        train(store, LAST + 2)


def servers(reference: Path, tmp_path: Path) -> dict[int | None, bytes]:
    """The server of each round that a damaged run may go on from."""
    shutil.copytree(reference, tmp_path / "before")
    newest = tmp_path / "before" / layout.CHECKPOINTS / layout.manifest(LAST)
    found = {LAST: checkpoint.load(tmp_path / "before")}
    newest.unlink()
    found[LAST - 1] = checkpoint.load(tmp_path / "before")
    return {round: codec.encode(point.server) for round, point in found.items() if point}


def reopened(folder: Path, name: str, good: bytes, known: dict[int | None, bytes]) -> str:
    """How a change of the file shows itself; whatever is believed is what was committed."""
    try:
        store = RunStore.open(folder)
    except DiskError as error:
        return "refused" if Path(name).name in str(error) else f"misnamed: {error}"
    with store:
        point = store.load()
        assert point is not None
        assert codec.encode(point.server) == known[store.round]
        if store.warnings:
            assert any(Path(name).name in warning for warning in store.warnings)
            return "fell back" if store.round == LAST - 1 else "previous lost"
    assert name in (layout.METRICS, layout.CLIENTS)
    assert (folder / name).read_bytes() == good, "only what came after the good bytes was dropped"
    return "tail dropped"


@pytest.mark.parametrize("count", [4000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_every_changed_file_of_a_run(count: int, tmp_path: Path, reference: Path, tally: Tally) -> None:
    known, files, rng = servers(reference, tmp_path), result(reference), random.Random(count)
    shutil.copytree(reference, tmp_path / "later")
    go_on(tmp_path / "later")
    later, folder = result(tmp_path / "later"), tmp_path / "run"
    while tally.tried < part_of(count):
        name = rng.choice(sorted(files))
        changed = mutate(files[name], rng)
        if changed == files[name]:
            continue
        shutil.copytree(reference, folder)
        (folder / name).write_bytes(changed)
        with tally.case() as number:
            outcome = reopened(folder, name, files[name], known)
            assert outcome in OUTCOMES
            tally.add(outcome)
            if outcome != "refused" and number % AGAIN == 0:
                go_on(folder)
                assert result(folder) == later, name
        shutil.rmtree(folder)
    assert all(tally.notes.get(outcome) for outcome in OUTCOMES)


@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_every_changed_event(count: int, tmp_path: Path, reference: Path, tally: Tally) -> None:
    rng, good = random.Random(count), (reference / layout.EVENTS).read_bytes()
    shutil.copytree(reference, tmp_path / "run")
    before, reader = RunReader(reference).events(), RunReader(tmp_path / "run")
    for _ in range(part_of(count)):
        (tmp_path / "run" / layout.EVENTS).write_bytes(mutate(good, rng))
        with tally.case():
            events = reader.events()
            known = [event for event in events if event["event"] != "damaged line"]
            assert all(event in before for event in known)
            assert len(known) < len(events) or known == before[: len(known)]


@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_every_changed_partition(count: int, tmp_path: Path, tally: Tally) -> None:
    labels, rng = np.arange(40) % 4, random.Random(count)
    scheme, path = partition.Dirichlet(0.5, 3, minimum=2), tmp_path / "partition.json"
    made = partition.split(scheme, labels, np.arange(30), np.arange(30, 40), 0)
    artefact.save(path, made, scheme, 0, labels)
    good = path.read_bytes()
    while tally.tried < part_of(count):
        changed = mutate(good, rng)
        if changed != good:
            path.write_bytes(changed)
            with tally.case(), pytest.raises(DataError, match=r"partition\.json"):
                artefact.load(path, labels)
