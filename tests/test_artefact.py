"""A saved partition comes back as it was, or not at all."""

import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedskew import __version__
from fedskew.data import artefact
from fedskew.data import partition as parts
from fedskew.errors import DataError, DiskError

LABELS = np.arange(40) % 4
SCHEME = parts.Dirichlet(0.5, 3, minimum=2)


def made(seed: int = 0) -> parts.Partition:
    partition = parts.split(SCHEME, LABELS, np.arange(30), np.arange(30, 40), seed)
    return parts.hold_out(partition, 0.3, seed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    artefact.save(tmp_path / "partition.json", made(), SCHEME, 0, LABELS)
    return tmp_path / "partition.json"


def forged(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Writes a file whose content was changed and whose digest is right."""
    content = json.loads(path.read_text())["content"]
    change(content)
    path.write_bytes(artefact._encode(content)[0])


def test_what_is_saved_comes_back(path: Path) -> None:
    loaded, partition = artefact.load(path, LABELS), made()
    for before, after in ((partition.train, loaded.partition.train), (partition.test, loaded.partition.test)):
        assert [part.tolist() for part in before] == [part.tolist() for part in after]
        assert all(part.dtype == np.int64 for part in after)
    assert loaded.partition.novel == partition.novel
    assert len(partition.novel) == 1
    assert (loaded.seed, loaded.samples, loaded.version) == (0, 40, __version__)
    assert parts.scheme(loaded.scheme, loaded.settings) == SCHEME


@pytest.mark.parametrize(
    "scheme",
    [
        parts.IID(2),
        parts.Incomplete(4),
        parts.Dirichlet(1, 2, "if_needed"),
        parts.Shards(2, 2, True),
        parts.Natural(),
    ],
    ids=str,
)
def test_every_kind_of_setting_survives(tmp_path: Path, scheme: parts.Scheme) -> None:
    partition = parts.split(scheme, LABELS, np.arange(30), np.arange(30, 40), 0, np.arange(40) % 3)
    artefact.save(tmp_path / "p", partition, scheme, 7, LABELS)
    loaded = artefact.load(tmp_path / "p")
    assert parts.scheme(loaded.scheme, loaded.settings) == scheme


def test_the_digest_is_that_of_the_content(path: Path) -> None:
    document = json.loads(path.read_text())
    canonical = json.dumps(document["content"], sort_keys=True, separators=(",", ":")).encode()
    expected = hashlib.sha256(canonical).hexdigest()
    assert document["sha256"] == expected
    assert artefact.load(path).sha256 == expected
    assert artefact.save(path, made(), SCHEME, 0, LABELS) == expected


def test_equal_content_gives_equal_bytes(path: Path) -> None:
    first = path.read_bytes()
    artefact.save(path, made(), SCHEME, 0, LABELS.astype(np.int32))
    assert path.read_bytes() == first
    artefact.save(path, made(1), SCHEME, 1, LABELS)
    assert path.read_bytes() != first


def test_any_changed_byte_is_noticed(path: Path) -> None:
    raw = path.read_bytes()
    for place in range(len(raw)):
        for bit in (1, 16):
            path.write_bytes(raw[:place] + bytes([raw[place] ^ bit]) + raw[place + 1 :])
            with pytest.raises(DataError, match=r"partition\.json"):
                artefact.load(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: raw[:-1],
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw + b" ",
        lambda raw: raw.replace(b",", b", ", 1),
        lambda raw: b"\xff" + raw,
        lambda raw: b"[" * 100_000,
        lambda raw: b"[]",
        lambda raw: b'{"content": NaN}',
        lambda raw: b'{"content": ' + b"9" * 5000 + b"}",
    ],
)
def test_damaged_files_are_refused_by_name(path: Path, damage: Callable[[bytes], bytes]) -> None:
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        DataError,
        match=r"partition\.json: no partition to use: .*Put the file, and the data it was made for, back",
    ):
        artefact.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["train"][0].append(40), "out of range: 0 to 40 for 40 samples"),
        (lambda c: c["test"][0].append(-1), "out of range: -1 to"),
        (lambda c: c["train"][0].append(c["train"][1][0]), "is owned 2 times"),
        (lambda c: c["test"][0].append(c["train"][1][0]), "is owned 2 times"),
        (lambda c: c["train"][0].append(10**30), "no partition to use"),
        (lambda c: c["train"][0].append(1.0), "no whole number"),
        (lambda c: c["train"][0].append("1"), "no whole number"),
        (lambda c: c["novel"].append(True), "no whole number"),
        (lambda c: c["train"].append(3), "no partition to use"),
        (lambda c: c["train"].append("34"), "no whole number"),
        (lambda c: c["train"].append([]), "lacks its training samples"),
        (lambda c: c["test"].pop(), "lacks its training samples or its"),
        (lambda c: c["train"].__setitem__(0, []), "lacks its training samples"),
        (lambda c: c.update(train=[], test=[]), "lacks its training samples"),
        (lambda c: c.update(novel=[3]), r"novel clients \(3,\) are not some of the 3"),
        (lambda c: c.update(novel=[1, 1]), "are not some"),
        (lambda c: c.update(novel=[0, 1, 2]), "are not some"),
        (lambda c: c.update(samples=20), "out of range"),
        (lambda c: c.update(format="fedskew partition 2"), "another format"),
        (lambda c: c.update(seed="0"), "another format"),
        (lambda c: c.pop("scheme"), "lacks an entry"),
    ],
)
def test_content_that_makes_no_sense_is_refused(
    path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    forged(path, change)
    with pytest.raises(DataError, match=message) as refusal:
        artefact.load(path)
    assert str(path) in str(refusal.value)


def test_a_partition_of_other_data_is_refused(path: Path) -> None:
    other = LABELS.copy()
    other[-1] = 0
    with pytest.raises(DataError, match="divides another pool of 40 samples, not these 40"):
        artefact.load(path, other)
    assert artefact.load(path, LABELS.astype(np.int32)).labels == artefact.fingerprint(LABELS)


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    for place in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(DataError, match=str(place)):
            artefact.load(place)


def test_a_wrong_partition_is_not_written(tmp_path: Path) -> None:
    wrong = made()._replace(test=made().train)
    with pytest.raises(DataError, match=r"p\.json: not written, because position \d+ is owned 2 times"):
        artefact.save(tmp_path / "p.json", wrong, SCHEME, 0, LABELS)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match=r"partition\.json: cannot be written"):
        artefact.save(path, made(1), SCHEME, 1, LABELS)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_bytes_are_on_disk_before_the_name_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = path.read_bytes(), []
    monkeypatch.setattr(
        os, "fsync", lambda handle: seen.append((os.fstat(handle).st_size, path.read_bytes()))
    )
    artefact.save(path, made(1), SCHEME, 1, LABELS)
    assert seen == [(path.stat().st_size, before)]


def test_a_place_that_cannot_be_written_is_named(path: Path) -> None:
    with pytest.raises(DiskError, match=r"partition\.json/p: cannot be written"):
        artefact.save(path / "p", made(), SCHEME, 0, LABELS)


def test_others_may_read_what_is_shared(path: Path) -> None:
    plain = path.with_name("plain")
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode
