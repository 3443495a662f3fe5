"""What must not be read, written or believed: foreign directories, crafted manifests, changed files."""

import json
import os
import shutil
from pathlib import Path

import pytest
from store_run import CONFIG, begin, finish, result

from fedskew.errors import ConfigError, DiskError, LockedError
from fedskew.store import records
from fedskew.store.reader import RunReader
from fedskew.store.records import NOTHING, Manifest, Ref
from fedskew.store.run import RunStore


def test_a_run_is_not_begun_where_something_is(tmp_path: Path, reference: Path) -> None:
    before = result(reference)
    with pytest.raises(ConfigError, match=r"already holds a run.*fedskew resume"):
        begin(reference)
    assert result(reference) == before
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match=r"not empty.*thesis\.tex"):
        begin(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ConfigError, match="is a file"):
        begin(tmp_path / "thesis.tex")
    with pytest.raises(ConfigError, match=r"no run there\. `fedskew ls` lists the runs"):
        RunStore.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_checkpoints_without_an_opening_are_not_overwritten(tmp_path: Path, reference: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    (tmp_path / "run/run.json").unlink()
    with pytest.raises(ConfigError, match=r"checkpoints but no run\.json"):
        begin(tmp_path / "run")


@pytest.mark.parametrize("name", ["../out", "/abs", "", ".hidden", "metrics.jsonl", "a/b", "x.part", "lock"])
def test_a_file_of_the_caller_stays_inside(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        RunStore.create(tmp_path / "run", CONFIG, {}, {name: b""})
    assert not (tmp_path / "run").exists()


def test_a_closed_or_replaced_directory_is_not_written(tmp_path: Path) -> None:
    with begin(tmp_path / "run") as store:
        pass
    with pytest.raises(LockedError, match="no longer owns"):
        store.log_metrics({"round": 0})
    with RunStore.open(tmp_path / "run") as store:
        shutil.rmtree(tmp_path / "run")
        with begin(tmp_path / "run") as other:
            with pytest.raises(LockedError, match="no longer owns"):
                store.save(0, {}, {})
            other.save(0, {}, {})


@pytest.mark.parametrize("digest", ["../../secret", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_a_manifest_cannot_name_a_file_outside(tmp_path: Path, reference: Path, digest: str) -> None:
    shutil.copytree(reference, tmp_path / "run")
    for path in (tmp_path / "run/checkpoints").iterdir():
        body = json.loads(path.read_text())["body"]
        body["server"][0] = digest
        path.write_bytes(records._sealed(body))
    with pytest.raises(DiskError, match="no checkpoint is whole"):
        RunStore.open(tmp_path / "run")


def test_an_opening_cannot_name_a_file_outside(tmp_path: Path, reference: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    (tmp_path / "secret").write_bytes(b"secret")
    path = tmp_path / "run/run.json"
    path.write_bytes(records._sealed({"format": 1, "files": {"../secret": Ref.of(b"secret")}}))
    for look in (RunReader, RunStore.open):
        with pytest.raises(DiskError, match=r"run\.json: is damaged"):
            look(tmp_path / "run")


def test_a_run_of_another_version_is_not_called_damaged(tmp_path: Path, reference: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    path = tmp_path / "run/run.json"
    path.write_bytes(records._sealed(json.loads(path.read_text())["body"] | {"format": 2}))
    with pytest.raises(DiskError, match=r"run\.json: has format 2; this version of fedskew reads 1 only"):
        RunReader(tmp_path / "run")


def test_a_manifest_of_another_run_or_round_is_refused(tmp_path: Path, reference: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    folder = tmp_path / "run/checkpoints"
    (folder / "round-00000002.json").replace(folder / "round-00000009.json")
    with RunStore.open(tmp_path / "run") as store:
        assert store.round == 1
        assert "another run or round" in store.warnings[0]
    foreign = Manifest(
        run="0" * 64, round=11, server=NOTHING, index=NOTHING, metrics=NOTHING, clients=NOTHING
    )
    (folder / "round-00000011.json").write_bytes(records.seal(foreign))
    with pytest.raises(DiskError, match="another run or round"):
        RunReader(tmp_path / "run").metrics()


def test_sizes_are_compared_before_anything_is_read(tmp_path: Path, reference: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    for path in (tmp_path / "run/states").glob("*.safetensors"):
        os.truncate(path, 1 << 40)  # sparse: reading it would end this test
    with pytest.raises(DiskError, match="1,099,511,627,776 bytes instead of"):
        RunStore.open(tmp_path / "run")


def test_a_damaged_event_does_not_stop_a_run(tmp_path: Path, reference: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    path = tmp_path / "run/events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"round":1', b'"round":7'))
    with RunStore.open(tmp_path / "run") as store:
        assert "events.jsonl: line 3 is damaged" in store.warnings[0]
        store.log_event("note", {"text": "on"})
        with pytest.raises(ValueError, match="sets 'at' itself"):
            store.log_event("note", {"at": 1})
    assert RunReader(tmp_path / "run").events()[-1]["text"] == "on"


@pytest.mark.parametrize("name", ["metrics.jsonl", "clients.jsonl"])
def test_a_damaged_last_line_is_made_again(tmp_path: Path, reference: Path, name: str) -> None:
    shutil.copytree(reference, tmp_path / "run")
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes()[:-3] + b"9}\n")
    with pytest.raises(DiskError, match=name):
        getattr(RunReader(tmp_path / "run"), name.removesuffix(".jsonl"))()
    store = finish(tmp_path / "run")
    assert name in store.warnings[0]
    assert result(tmp_path / "run") == result(reference)


def test_a_damaged_newest_checkpoint_falls_back_and_says_so(tmp_path: Path, reference: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    path = tmp_path / "run/checkpoints/round-00000002.json"
    path.write_bytes(path.read_bytes()[:-5])
    with RunStore.open(tmp_path / "run") as store:
        assert store.round == 1
        assert "round 2" in store.warnings[0]
        assert path.name in store.warnings[0]
    opened = RunReader.events(RunReader(tmp_path / "run"))[-1]
    assert opened["warnings"] == list(store.warnings)
    assert opened["dropped_bytes"]["metrics.jsonl"] > 0
    with pytest.raises(DiskError, match=path.name):
        RunReader(tmp_path / "run").metrics()
