"""A run directory: what is in it, what a resumed run has, what a reader sees."""

import gc
import hashlib
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from store_run import CLIENTS, CONFIG, FILES, LAST, begin, finish, result, train

from fedskew.errors import DiskError
from fedskew.store import checkpoint, codec, disk, environment
from fedskew.store.kept import Kept
from fedskew.store.reader import RunReader
from fedskew.store.records import NOTHING, Ref
from fedskew.store.run import RunStore
from fedskew.tree import State


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for the real disk, where a test is about something else."""
    monkeypatch.setattr(disk, "fsync", lambda descriptor: None)
    monkeypatch.setattr(disk, "sync_folder", lambda path: None)


def test_a_run_directory_holds_what_it_says(reference: Path) -> None:
    names = {path.name for path in reference.iterdir()}
    fixed = {"run.json", "config.toml", "environment.json", "partition.bin"}
    assert names == fixed | {
        "metrics.jsonl",
        "clients.jsonl",
        "events.jsonl",
        "lock",
        "checkpoints",
        "states",
    }
    assert (reference / "config.toml").read_text() == CONFIG
    kept = sorted(path.name for path in (reference / "checkpoints").iterdir())
    assert kept == ["round-00000001.json", "round-00000002.json"]
    for path in (reference / "states").iterdir():
        assert path.name.split(".")[0] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_only_what_the_two_last_checkpoints_need_is_kept(reference: Path) -> None:
    needed = set()
    for path in (reference / "checkpoints").iterdir():
        body = json.loads(path.read_text())["body"]
        index = json.loads((reference / "states" / f"{body['index'][0]}.json").read_text())
        assert set(index) <= {str(client) for client in range(CLIENTS)}
        needed |= {f"{body['index'][0]}.json", f"{body['server'][0]}.safetensors"}
        needed |= {f"{digest}.safetensors" for digest, _ in index.values()}
    assert {path.name for path in (reference / "states").iterdir()} == needed


def test_a_manifest_vouches_for_the_lines_so_far(reference: Path) -> None:
    newest = json.loads((reference / "checkpoints" / "round-00000002.json").read_text())["body"]
    for name in ("metrics", "clients"):
        data = (reference / f"{name}.jsonl").read_bytes()
        assert newest[name] == [hashlib.sha256(data).hexdigest(), len(data)]


def test_an_unchanged_client_is_not_written_again(tmp_path: Path) -> None:
    state: State = {"private": {"w": torch.arange(5.0)}}
    with begin(tmp_path / "run") as store:
        store.save(0, {}, {7: state})
        path = tmp_path / "run/states" / f"{hashlib.sha256(codec.encode(state)).hexdigest()}.safetensors"
        before = path.stat()
        store.save(1, {"shared": {"w": torch.ones(1)}}, {})
        store.save(2, {"shared": {"w": torch.ones(2)}}, {7: state, 8: state})
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_lines_are_valid_json_and_what_is_not_finite_is_null(tmp_path: Path) -> None:
    with begin(tmp_path / "run") as store:
        store.log_metrics(
            {"round": 0, "a": math.nan, "b": {"c": [math.inf, -math.inf, 0.1]}, "ü": "\u2028\n"}
        )
        store.save(0, {}, {})
    text = (tmp_path / "run/metrics.jsonl").read_text()
    assert text.count("\n") == 1
    assert "NaN" not in text
    assert "Infinity" not in text
    line = {"round": 0, "a": None, "b": {"c": [None, None, 0.1]}, "ü": "\u2028\n"}
    assert RunReader(tmp_path / "run").metrics() == [line]


def test_the_order_of_rounds_is_kept(tmp_path: Path) -> None:
    with begin(tmp_path / "run") as store:
        store.save(4, {}, {})
        for round in (4, 3, None, "5"):
            with pytest.raises(ValueError, match="committed round 4"):
                store.log_metrics({"round": round})
        with pytest.raises(ValueError, match="committed round 4"):
            store.save(4, {}, {})


def test_environment_tells_what_decides_the_bits() -> None:
    here = environment.describe()
    assert here.keys() >= {"fedskew", "python", "torch", "numpy", "platform", "cpu"}
    assert environment.differences(here, here) == []
    assert environment.differences(here, {**here, "torch": "0"}) == [f"torch was {here['torch']}, is 0"]


@pytest.mark.parametrize("stop", range(LAST + 1))
def test_a_resumed_run_has_the_bytes_of_an_uninterrupted_one(
    tmp_path: Path, reference: Path, stop: int
) -> None:
    with begin(tmp_path / "run") as store:
        train(store, stop)
        store.log_metrics({"round": stop + 1, "lost": 1})
        store.log_clients([{"round": stop + 1, "lost": 1}])
    assert finish(tmp_path / "run").warnings == ()
    assert result(tmp_path / "run") == result(reference)


def test_a_checkpoint_is_read_without_a_lock(reference: Path) -> None:
    with RunStore.open(reference):
        found = checkpoint.load(reference)
    assert found is not None
    assert found.round == LAST
    assert sorted(found.kept) == [0, 1, 2, 3]
    assert found.server["shared"]["w"].shape == (4,)


def test_a_new_run_has_no_checkpoint(tmp_path: Path) -> None:
    with begin(tmp_path / "run") as store:
        assert store.load() is None
        assert store.round is None
        assert len(store.kept()) == 0
    assert checkpoint.load(tmp_path / "run") is None
    assert RunReader(tmp_path / "run").metrics() == []


def test_kept_states_are_read_when_asked_for_and_follow_the_commits(tmp_path: Path) -> None:
    with begin(tmp_path / "run") as store:
        kept = store.kept()
        kept[3] = {"private": {"w": torch.ones(2)}}
        assert 3 in kept
        assert sorted(kept) == [3]
        store.save(0, {}, kept.changed)
        kept.settle()
        assert kept.changed == {}
        assert torch.equal(kept[3]["private"]["w"], torch.ones(2))
        assert kept.get(4) is None
        kept[4] = {"private": {}}
        assert (len(kept), sorted(kept), list(kept.changed)) == (2, [3, 4], [4])
        with pytest.raises(TypeError, match="not removed"):
            del kept[3]
        [path] = [p for p in (tmp_path / "run/states").iterdir() if p.read_bytes() == codec.encode(kept[3])]
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        with pytest.raises(DiskError, match=path.name):
            store.kept()[3]


def test_no_more_committed_states_are_held_than_there_is_room_for(tmp_path: Path) -> None:
    with begin(tmp_path / "run") as store:
        asked: list[Ref] = []
        read = store.kept()._read
        kept = Kept(store._index, lambda ref: asked.append(ref) or read(ref), room=1000)  # type: ignore[func-returns-value]
        for client in range(4):
            kept[client] = {"private": {"w": torch.full((100,), float(client))}}
        store.save(0, {}, kept.changed)
        kept.settle()
        assert [float(kept[client]["private"]["w"][0]) for client in range(4)] == [0, 1, 2, 3]
        assert len(asked) == 2, "the two that settled last are still there"
        block = torch.zeros(10, 100)
        kept[3] = {"private": {"w": block[3]}}
        store.save(1, {}, kept.changed)
        kept.settle()
        kept[3]
        assert len(asked) == 3, "a row keeps its whole block, which is too large"


def test_a_reader_tells_what_is_committed_and_what_is_not(tmp_path: Path) -> None:
    with begin(tmp_path / "run") as store:
        reader = RunReader(tmp_path / "run")
        store.log_metrics({"round": 0, "loss": 2.0})
        assert (reader.metrics(), reader.metrics(live=True)) == ([], [{"round": 0, "loss": 2.0}])
        store.save(0, {}, {})
        store.log_clients([{"round": 1, "client": 4}])
        assert (reader.round(), reader.metrics()) == (0, [{"round": 0, "loss": 2.0}])
        assert (reader.clients(), reader.clients(live=True)) == ([], [{"round": 1, "client": 4}])
    assert reader.config() == {"method": "fedavg"}
    assert reader.environment() == {"python": "3", "threads": 1}
    assert reader.file("partition.bin") == FILES["partition.bin"]
    with pytest.raises(KeyError):
        reader.file("../secret")
    assert [event["event"] for event in reader.events()] == ["opened"]


def test_reading_does_not_import_torch(reference: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from fedskew.store.reader import RunReader; "
        "print(len(RunReader(Path(sys.argv[1])).metrics()), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(reference)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(LAST + 1), "False"]


def test_a_commit_of_many_clients_is_light(tmp_path: Path, quick: None) -> None:
    """The part of a commit that grows with the population, not with the data: its manifest and index."""
    tiny: State = {"private": {"w": torch.ones(1)}}
    with begin(tmp_path / "run") as store:
        store.save(0, {}, dict.fromkeys(range(10_000), tiny))
        store.save(1, {}, {5: {"private": {"w": torch.zeros(1)}}})
        gc.disable()  # a collection takes longer than a commit, and longer the more tests came before
        try:
            began = time.process_time()
            store.save(2, {}, {6: {"private": {"w": torch.full((1,), 2.0)}}})
            assert time.process_time() - began < 0.5
        finally:
            gc.enable()
        manifests = list((tmp_path / "run/checkpoints").iterdir())
        assert max(path.stat().st_size for path in manifests) < 2_000
        kept = store.kept()
        assert len(kept) == 10_000
        assert kept[6]["private"]["w"].item() == 2


def test_references_are_equal_for_equal_bytes() -> None:
    assert Ref.of(b"a") == Ref.of(b"a") != Ref.of(b"b")
    assert Ref(hashlib.sha256().hexdigest(), 0) == NOTHING
