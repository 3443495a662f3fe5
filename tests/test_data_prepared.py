"""Prepared copies: keyed by content and options, mapped fast, written whole or not at all."""

import os
import time
from pathlib import Path

import data_makers as make
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from fedskew.data import prepared, registry
from fedskew.data.atomic import write_with
from fedskew.data.dataset import Dataset
from fedskew.data.digest import digest, fingerprint
from fedskew.data.folder import Folder
from fedskew.data.idx import MNIST


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    make.write_mnist(tmp_path / "data" / "mnist")
    return make.own_folder(tmp_path)


def same(a: Dataset, b: Dataset) -> bool:
    arrays = [(a.train, b.train), (a.test, b.test)]
    if a.owners is not None and b.owners is not None:
        arrays.append((a.owners, b.owners))
    alike = all(p.dtype == q.dtype and (p == q).all() for p, q in arrays)
    return (
        alike
        and torch.equal(a.x, b.x)
        and torch.equal(a.y, b.y)
        and a.classes == b.classes
        and a.name == b.name
        and a.clients == b.clients
    )


def copies(folder: Folder) -> list[Path]:
    return sorted((folder.cache / "prepared").iterdir())


def test_the_second_time_nothing_is_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    first = registry.load("mnist", folder=folder)
    monkeypatch.setattr(MNIST, "read", lambda self, files, folder: pytest.fail("was read again"))
    assert same(first, registry.load("mnist", folder=folder))
    assert len(copies(folder)) == 1


def test_a_file_moved_among_the_others_makes_another_copy(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described(top: str, parts: str) -> str:
        files = tuple(tmp_path / top / part / f"{k}.json" for k, part in enumerate(parts))
        for k, file in enumerate(files):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(k))
        return prepared.describe("", files, folder)

    assert described("here", "ab") == described("there", "ab")
    assert described("here", "ab") != described("here", "ba")
    monkeypatch.chdir(tmp_path)
    mixed = (Path("here/a/0.json"), tmp_path / "here/b/1.json")
    assert prepared.describe("", mixed, folder) == described("here", "ab")


def test_other_content_or_options_make_another_copy(folder: Folder, tmp_path: Path) -> None:
    first = registry.load("mnist", folder=folder)
    make.write_mnist(tmp_path / "data" / "mnist", train=13)
    second = registry.load("mnist", folder=folder)
    assert (len(first.train), len(second.train)) == (12, 13)
    np.savez(tmp_path / "own.npz", x=np.eye(90), y=np.arange(90) % 2, client=np.arange(90) % 3)
    own = [
        registry.load("arrays", {"path": str(tmp_path / "own.npz"), "seed": k}, folder=folder) for k in (0, 1)
    ]
    assert not (own[0].test == own[1].test).all()
    assert same(
        own[0], registry.load("arrays", {"path": str(tmp_path / "own.npz"), "seed": 0}, folder=folder)
    )
    assert len(copies(folder)) == 4


def test_a_copy_of_before_owners_had_names_is_made_again(tmp_path: Path) -> None:
    folder = make.own_folder(tmp_path)
    np.savez(tmp_path / "own.npz", x=np.eye(30), y=np.arange(30) % 2, client=[f"h{k % 3}" for k in range(30)])
    options = {"path": str(tmp_path / "own.npz")}
    assert registry.load("arrays", options, folder=folder).clients == ("h0", "h1", "h2")
    assert registry.load("arrays", options, folder=folder).clients == ("h0", "h1", "h2")
    (copy,) = copies(folder)
    with safe_open(copy, "pt") as file:
        words = {key: value for key, value in file.metadata().items() if key != "clients"}
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    copy.unlink()
    save_file(tensors, copy, words)
    assert registry.load("arrays", options, folder=folder).clients == ("h0", "h1", "h2")
    save_file({name: t for name, t in tensors.items() if name != "owners"}, tmp_path / "plain", words)
    plain = prepared.restore(tmp_path / "plain", words["manifest"])
    assert plain is not None, "data without owners lack nothing"
    assert plain.clients == ()


@pytest.mark.parametrize("damage", ["empty", "cut", "header", "nonsense"])
def test_a_damaged_copy_is_made_again(folder: Folder, damage: str) -> None:
    first = registry.load("mnist", folder=folder)
    expected = Dataset(
        *(
            v.clone() if isinstance(v, torch.Tensor) else np.copy(v) if isinstance(v, np.ndarray) else v
            for v in first
        )
    )
    del first
    copy = copies(folder)[0]
    data = copy.read_bytes()
    copy.unlink()  # the mapped file stays as it is for whoever maps it
    replaced = {"empty": b"", "cut": data[:-100], "header": b"\xff" * 8 + data[8:], "nonsense": b"x" * 1000}[
        damage
    ]
    copy.write_bytes(replaced)
    assert same(expected, registry.load("mnist", folder=folder))
    assert len(copy.read_bytes()) == len(data)


def test_an_interrupted_writer_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(part: Path) -> None:
        part.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_with(tmp_path / "file", interrupted)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_swept_a_day_later(tmp_path: Path) -> None:
    old, new = tmp_path / ".file.abc.part", tmp_path / ".file.def.part"
    old.write_text("half")
    new.write_text("half")
    os.utime(old, (time.time() - 90_000,) * 2)
    assert write_with(tmp_path / "file", lambda part: None)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".file.def.part", "file"]


def test_without_a_writable_cache_the_data_still_loads(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the cache should be")
    assert len(registry.load("mnist", folder=folder).train) == 12


def test_a_disk_that_fills_up_is_survived(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(tensors: object, path: Path, metadata: object) -> None:
        Path(path).write_text("half")
        raise prepared.SafetensorError("No space left on device")

    monkeypatch.setattr(prepared, "save_file", full)
    assert len(registry.load("mnist", folder=folder).train) == 12
    assert copies(folder) == []


def test_mapping_the_size_of_mnist_takes_no_time(tmp_path: Path) -> None:
    data = Dataset(
        "big",
        torch.rand(70_000, 1, 28, 28),
        torch.zeros(70_000, dtype=torch.int64),
        np.arange(60_000),
        np.arange(10_000),
        ("a", "b"),
    )
    assert prepared.store(tmp_path / "big.safetensors", "manifest", data)
    start = time.perf_counter()
    mapped = prepared.restore(tmp_path / "big.safetensors", "manifest")
    assert time.perf_counter() - start < 0.2
    assert mapped is not None
    assert same(mapped, data)
    assert prepared.restore(tmp_path / "big.safetensors", "another manifest") is None


def test_a_hash_is_computed_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    file, memo = tmp_path / "file", tmp_path / "memo.json"
    file.write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    assert digest(file, "sha256", memo) == known
    assert known in memo.read_text()
    memo.write_text(memo.read_text().replace(known, "remembered"))
    assert digest(file, "sha256", memo) == "remembered"
    file.write_bytes(b"abcd")
    assert digest(file, "sha256", memo) not in (known, "remembered")
    for damaged in ("", "[]", "{", '"text"'):
        memo.write_text(damaged)
        assert len(digest(file, "md5", memo)) == 32


def test_a_folder_is_known_by_names_sizes_and_times(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("1")
    seen = {fingerprint(tmp_path)}
    (tmp_path / "a" / "y").write_text("1")
    seen.add(fingerprint(tmp_path))
    (tmp_path / "a" / "y").write_text("12")
    seen.add(fingerprint(tmp_path))
    os.utime(tmp_path / "a" / "y", (1, 1))
    seen.add(fingerprint(tmp_path))
    assert len(seen) == 4
