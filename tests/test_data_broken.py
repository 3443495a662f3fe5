"""Broken and hostile files: every one is refused and named, none is executed, none takes much memory."""

import gzip
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import data_makers as make
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedskew.data import registry
from fedskew.errors import DataError

Damage = Callable[[bytes], bytes]


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def empty(data: bytes) -> bytes:
    return b""


def noise(data: bytes) -> bytes:
    return np.random.default_rng(1).bytes(2000)


def flipped(at: int) -> Damage:
    return lambda data: data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def regzip(change: Damage) -> Damage:
    return lambda data: gzip.compress(change(gzip.decompress(data)))


def constant(content: bytes) -> Damage:
    return lambda data: content


@cache
def zeros(gigabytes: int) -> bytes:
    """A .gz of many members, each 100 MB of zeros."""
    return gzip.compress(bytes(100 << 20), 9) * (10 * gigabytes)


@cache
def deflated_zeros(gigabytes: int) -> bytes:
    """One deflate stream of zeros, from blocks that do not know of each other."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(100 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (10 * gigabytes) + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def zip_of(name: str, packed: bytes, size: int, crc: int = 0) -> bytes:
    """A .zip with one deflated member whose headers tell `size` and `crc`."""
    sizes = struct.pack("<III", crc, len(packed), size)
    local = (
        b"PK\3\4"
        + struct.pack("<HHHHH", 20, 0, 8, 0, 0)
        + sizes
        + struct.pack("<HH", len(name), 0)
        + name.encode()
    )
    entry = b"PK\1\2" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 0) + sizes
    entry += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, 0) + name.encode()
    start = len(local) + len(packed)
    return local + packed + entry + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), start, 0)


def tar_of(*members: tarfile.TarInfo, body: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(body.ljust(member.size, b"\0")) if member.isreg() else None)
    return out.getvalue()


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info


def png(width: int, height: int) -> bytes:
    """A PNG that promises width x height pixels and has hardly any."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def npz_of(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def npy_that_lies(shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue() + bytes(64)


def leaf(x: object, y: object) -> bytes:
    return json.dumps({"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": x, "y": y}}}).encode()


def wav(data: bytes, rate: int = 16_000, channels: int = 1, promised: int | None = None) -> bytes:
    size = len(data) if promised is None else promised
    head = struct.pack("<HHIIHH", 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", min(size + 36, 2**32 - 1)) + body


def mat_bomb(gigabytes: int) -> bytes:
    packed = b"\x78\xda" + deflated_zeros(gigabytes)
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + struct.pack("<II", 15, len(packed)) + packed


def pickled(*operations: bytes) -> bytes:
    return b"\x80\x02" + b"".join(operations) + b"."


class Payload:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch it_ran",)


TRAIN, LABELS = "mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"
BATCH, BINARY = "cifar-10-batches-py/data_batch_1", "cifar-10-batches-bin/data_batch_1.bin"
SVHN, LEAF = "svhn/train_32x32.mat", "femnist/train/all_data_0_niid_0_keep_0_train_9.json"
CAT, CINIC = "pictures/cat/picture_0.png", "CINIC-10/train/cat/picture_0.png"
WAV, FEATURES = "speech_commands/go/00000000_nohash_0.wav", "speech_commands/kws-mfcc.npz"
DAT, ATR, HEA = "mitdb/100.dat", "mitdb/100.atr", "mitdb/100.hea"
OWN, ZIP, TAR, TABLE = "own.npz", "pictures.zip", "pictures.tar", "table.csv.gz"
PACKED = "cifar-10-binary.tar.gz"
KWS = {"words": ["go", "stop"]}
IMAGE = np.zeros((2, 784)).tolist()

SETS: dict[str, tuple[Callable[[Path], object], str, dict[str, object]]] = {
    "mnist": (lambda top: make.write_mnist(top / "mnist"), "mnist", {}),
    "cifar-10-batches-py": (
        lambda top: make.write_cifar10_python(top / "cifar-10-batches-py", 3),
        "cifar10",
        {},
    ),
    "cifar-10-batches-bin": (
        lambda top: make.write_cifar10_binary(top / "cifar-10-batches-bin", 4),
        "cifar10",
        {},
    ),
    "cifar-10-binary.tar.gz": (lambda top: None, "cifar10", {}),
    "svhn": (lambda top: make.write_svhn(top / "svhn", 3), "svhn", {}),
    "femnist": (lambda top: make.write_leaf(top / "femnist", 2, 2), "femnist", {}),
    "pictures": (
        lambda top: make.write_images(top / "pictures", ["cat", "dog"]),
        "image-folder",
        {"path": "pictures"},
    ),
    "pictures.zip": (lambda top: None, "image-folder", {"path": ZIP}),
    "pictures.tar": (lambda top: None, "image-folder", {"path": TAR}),
    "CINIC-10": (
        lambda top: [make.write_images(top / "CINIC-10" / p, ["cat", "dog"]) for p in ("train", "test")],
        "cinic10",
        {},
    ),
    "speech_commands": (
        lambda top: make.write_speech(top / "speech_commands", ["go", "stop"], 3),
        "kws",
        KWS,
    ),
    "mitdb": (lambda top: write_mitdb(top / "mitdb"), "mit-bih", {}),
    "own.npz": (lambda top: None, "arrays", {"path": OWN}),
    "table.csv.gz": (lambda top: None, "csv", {"path": TABLE, "label": "kind"}),
}


def write_mitdb(place: Path) -> None:
    make.write_record(place, "100", ("MLII", "V1"), [(500, 1), (900, 5)], 2000)
    names = [f"{'0' * 64} 100{ending}" for ending in (".atr", ".dat", ".hea")]
    (place / "SHA256SUMS.txt").write_text("\n".join(names))


CASES: dict[str, tuple[str, Damage]] = {
    "idx cut": (TRAIN, cut),
    "idx empty": (TRAIN, empty),
    "idx noise": (TRAIN, noise),
    "idx content cut": (TRAIN, regzip(cut)),
    "idx wrong magic": (TRAIN, regzip(flipped(2))),
    "idx wrong axes": (LABELS, regzip(flipped(3))),
    "idx promises four billion": (TRAIN, regzip(lambda data: data[:4] + b"\xff" * 12 + data[16:])),
    "idx label out of range": (LABELS, regzip(lambda data: data[:-1] + b"\x0a")),
    "idx too few labels": (LABELS, constant(gzip.compress(make.idx_bytes(np.zeros(3))))),
    "idx checksum": (TRAIN, flipped(-5 % 9000)),
    "idx text": (LABELS, constant(b"<html>404 not found</html>")),
    "batch cut": (BATCH, cut),
    "batch empty": (BATCH, empty),
    "batch noise": (BATCH, noise),
    "batch payload": (BATCH, lambda data: pickle.dumps(Payload(), 2)),
    "batch payload in a dictionary": (BATCH, lambda data: pickle.dumps({"data": Payload(), "labels": []}, 4)),
    "batch eval": (BATCH, constant(pickled(b"c__builtin__\neval\n", make.python2_string(b"1"), b"\x85R"))),
    "batch import by instance": (BATCH, constant(pickled(b"(ios\nsystem\n"))),
    "batch memory index": (BATCH, constant(pickled(b"}r\xff\xff\xff\x7f"))),
    "batch of a list": (BATCH, constant(pickled(b"]"))),
    "batch without labels": (BATCH, constant(make.python2_pickle({b"data": np.zeros((2, 3072), np.uint8)}))),
    "batch label out of range": (
        BATCH,
        constant(make.python2_pickle({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 10]})),
    ),
    "batch of other pixels": (
        BATCH,
        constant(make.python2_pickle({b"data": np.zeros((2, 3000), np.uint8), b"labels": [1, 2]})),
    ),
    "batch shape that lies": (
        BATCH,
        constant(
            make.python2_pickle({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1]}).replace(
                b"J\x00\x0c\x00\x00", b"J\xff\xff\xff\x7f"
            )
        ),
    ),
    "binary cut": (BINARY, cut),
    "binary empty": (BINARY, empty),
    "binary label out of range": (BINARY, lambda data: b"\x0a" + data[1:]),
    "archive with a name that leads out": (PACKED, constant(gzip.compress(tar_of(member("../outside"))))),
    "archive with an absolute name": (PACKED, constant(gzip.compress(tar_of(member("/tmp/outside"))))),
    "archive with a link": (
        PACKED,
        constant(gzip.compress(tar_of(member("x", kind=tarfile.SYMTYPE, link="/etc/hostname")))),
    ),
    "archive without the batches": (PACKED, constant(gzip.compress(tar_of(member("readme", 10))))),
    "archive cut": (PACKED, lambda data: cut(gzip.compress(tar_of(member("readme", 90_000))))),
    "archive that is none": (PACKED, noise),
    "svhn cut": (SVHN, cut),
    "svhn empty": (SVHN, empty),
    "svhn noise": (SVHN, noise),
    "svhn flipped": (SVHN, flipped(400)),
    "leaf cut": (LEAF, cut),
    "leaf of a list": (LEAF, constant(b"[]")),
    "leaf NaN": (LEAF, constant(leaf([[float("nan")] * 784, [0.5] * 784], [1, 2]))),
    "leaf label out of range": (LEAF, constant(leaf(IMAGE, [1, 62]))),
    "leaf labels of text": (LEAF, constant(leaf(IMAGE, ["a", "b"]))),
    "leaf small images": (LEAF, constant(leaf([[0.0] * 783] * 2, [1, 2]))),
    "leaf pixels of 255": (LEAF, constant(leaf([[255] * 784] * 2, [1, 2]))),
    "leaf a million brackets": (LEAF, constant(b"[" * 1_000_000)),
    "leaf not text": (LEAF, noise),
    "image cut": (CAT, cut),
    "image empty": (CAT, empty),
    "image noise": (CAT, noise),
    "image of 50,000 x 50,000": (CAT, constant(png(50_000, 50_000))),
    "image of 9,000 x 9": (CAT, constant(png(9000, 9))),
    "image flipped": (CAT, flipped(60)),
    "image of another size": (CINIC, constant(png(31, 32))),
    "zip with a name that leads out": (ZIP, constant(zip_of("../a/b.png", b"\3\0", 0))),
    "zip cut": (ZIP, lambda data: cut(zip_of("a/b.png", b"\3\0" * 50, 0))),
    "zip with a wrong sum": (ZIP, constant(zip_of("a/b.png", zlib.compressobj(wbits=-15).flush(), 5))),
    "tar with a link": (TAR, constant(tar_of(member("a/b.png", kind=tarfile.SYMTYPE, link="../../x")))),
    "tar with a hard link": (
        TAR,
        constant(tar_of(member("a/b.png", kind=tarfile.LNKTYPE, link="/etc/hostname"))),
    ),
    "tar with a device": (TAR, constant(tar_of(member("a/b.png", kind=tarfile.CHRTYPE)))),
    "wav cut": (WAV, cut),
    "wav empty": (WAV, empty),
    "wav noise": (WAV, noise),
    "wav of two channels": (WAV, constant(wav(bytes(64), channels=2))),
    "wav of 8 kHz": (WAV, constant(wav(bytes(64), rate=8000))),
    "wav that promises four billion": (WAV, constant(wav(bytes(64), promised=2**32 - 100))),
    "wav without samples": (WAV, constant(wav(b""))),
    "features cut": (FEATURES, lambda data: cut(npz_of(mfcc_x50=np.zeros((9, 50, 16), np.int16)))),
    "features without names": (FEATURES, constant(npz_of(mfcc_x50=np.zeros((2, 50, 16), np.int16)))),
    "features of another shape": (
        FEATURES,
        constant(
            npz_of(
                mfcc_x50=np.zeros((2, 49, 16), np.int16), split=np.zeros(2, int), path=np.array(["a/b"] * 2)
            )
        ),
    ),
    "features with a strange name": (
        FEATURES,
        constant(
            npz_of(
                mfcc_x50=np.zeros((2, 50, 16), np.int16), split=np.zeros(2, int), path=np.array(["go"] * 2)
            )
        ),
    ),
    "signal cut": (DAT, cut),
    "signal empty": (DAT, empty),
    "annotations cut": (ATR, lambda data: data[:-2]),
    "header cut": (HEA, cut),
    "header empty": (HEA, empty),
    "header that leads out": (HEA, lambda data: data.replace(b"100.dat", b"../../x.dat")),
    "header that promises too much": (HEA, lambda data: data.replace(b" 2000", b" 2000000000")),
    "header noise": (HEA, noise),
    "npz of objects": (OWN, constant(npz_of(x=np.array([Payload()], object), y=np.zeros(1)))),
    "npz cut": (OWN, lambda data: cut(npz_of(x=np.eye(30), y=np.arange(30)))),
    "npz without y": (OWN, constant(npz_of(x=np.eye(3)))),
    "npz with NaN": (OWN, constant(npz_of(x=np.full((4, 2), np.nan), y=np.arange(4)))),
    "npz noise": (OWN, noise),
    "table cut": (TABLE, lambda data: cut(gzip.compress(b"a,kind\n" + b"1,x\n2,y\n" * 500))),
    "table not text": (TABLE, constant(gzip.compress(b"\xff\xfe\x00" * 50))),
}

LIE = npy_that_lies((1 << 31,))
BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "idx": (TRAIN, lambda: zeros(10)),
    "table": (TABLE, lambda: zeros(10)),
    "tar.gz of one large file": (
        PACKED,
        lambda: (
            gzip.compress(member("cifar-10-batches-bin/test_batch.bin", 10 << 30).tobuf(tarfile.GNU_FORMAT))
            + zeros(10)
        ),
    ),
    "tar.gz with an endless name": (
        PACKED,
        lambda: (
            gzip.compress(member("x", 10 << 30, tarfile.GNUTYPE_LONGNAME).tobuf(tarfile.GNU_FORMAT))
            + zeros(10)
        ),
    ),
    "tar.gz with an endless comment": (
        PACKED,
        lambda: gzip.compress(member("x", 10 << 30, tarfile.XHDTYPE).tobuf(tarfile.GNU_FORMAT)) + zeros(10),
    ),
    "zip": (ZIP, lambda: zip_of("a/b.png", deflated_zeros(3), 3000 << 20)),
    "zip that lies": (ZIP, lambda: zip_of("a/b.png", deflated_zeros(10), 100)),
    "npz": (OWN, lambda: zip_of("x.npy", deflated_zeros(3), 3000 << 20)),
    "npz of a promise": (OWN, lambda: zip_of("x.npy", zlib.compress(LIE)[2:-4], len(LIE), zlib.crc32(LIE))),
    "svhn": (SVHN, lambda: mat_bomb(10)),
}


def attempt(top: Path, file: str, content: bytes | Damage) -> DataError:
    """Lays the file set out, damages the file, loads it and returns the refusal."""
    write, name, options = SETS[file.split("/")[0]]
    top.mkdir(parents=True, exist_ok=True)
    write(top)
    target = top / file
    old = target.read_bytes() if target.exists() else b""
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(content(old) if callable(content) else content)
    try:
        registry.load(name, options, folder=make.own_folder(top.parent))
    except DataError as error:
        return error
    raise AssertionError(f"{file} was accepted")


def tree(top: Path) -> set[str]:
    return {p.relative_to(top).as_posix() for p in top.rglob("*")}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_there_are_enough() -> None:
    assert len(CASES) + len(BOMBS) >= 60


@pytest.mark.parametrize("case", CASES)
def test_refused_and_named(case: str, tmp_path: Path) -> None:
    file, damage = CASES[case]
    if file.startswith("mitdb"):
        pytest.importorskip("wfdb", reason="wfdb is in the extra ecg")
    SETS[file.split("/")[0]][0](tmp_path / "data")
    before = tree(tmp_path / "data")
    error = attempt(tmp_path / "data", file, damage)
    assert error.exit_code == 3
    named = Path(file).stem if file.startswith("mitdb") else Path(file).name
    assert named in str(error)
    assert len(str(error)) < 1000
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "cache") == ["data", "here"]
    assert tree(tmp_path / "data") == before | {file}
    assert list((tmp_path / "here").iterdir()) == []


MEASURE = """
import resource, sys
from pathlib import Path
import fedskew.data.registry, fedskew.data.images, fedskew.data.svhn, scipy.io, PIL.Image
import test_data_broken as broken

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

before = peak()
for number, (file, _) in enumerate(broken.BOMBS.values()):
    bomb = Path(sys.argv[1], str(number))
    error = broken.attempt(bomb / "data", file, lambda old: (bomb / "bomb").read_bytes())
    print(error.exit_code, Path(file).name in str(error), peak() - before)
"""


def test_bombs_take_no_memory(tmp_path: Path) -> None:
    """In a process of its own, which has read nothing large before."""
    for number, (_, bomb) in enumerate(BOMBS.values()):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "bomb").write_bytes(bomb())
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])}
    command = [sys.executable, "-c", MEASURE, str(tmp_path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    for case, line in zip(BOMBS, ran.stdout.splitlines(), strict=True):
        code, named, megabytes = line.split()
        assert (case, code, named) == (case, "3", "True")
        assert (case, int(megabytes)) < (case, 300)


def test_a_link_out_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png(4, 4))
    make.write_images(tmp_path / "data" / "pictures", ["cat", "dog"])
    (tmp_path / "data" / "pictures" / "cat" / "link.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(DataError, match=r"link\.png: is a link out of"):
        registry.load("image-folder", {"path": "pictures"}, folder=make.own_folder(tmp_path))
    (tmp_path / "data" / "pictures" / "cat" / "link.png").unlink()
    (tmp_path / "data" / "pictures" / "all").symlink_to(tmp_path)
    with pytest.raises(DataError, match="all: is a link, which is not followed"):
        registry.load("image-folder", {"path": "pictures"}, folder=make.own_folder(tmp_path))


def test_wrong_hashes_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    folder = make.own_folder(tmp_path)
    checked = type(folder)(folder.data_dir, folder.cache, download=False)
    make.write_mnist(tmp_path / "data" / "mnist")
    make.write_cifar10_python(tmp_path / "data" / "cifar-10-batches-py")
    make.write_svhn(tmp_path / "data" / "svhn")
    for name, file in (("mnist", "train-images"), ("cifar10", "data_batch_1"), ("svhn", "train_32x32.mat")):
        with pytest.raises(DataError, match=rf"{file}.*: size or hash are not those of the published"):
            registry.load(name, folder=checked)


FUZZED = [TRAIN, LABELS, BATCH, BINARY, SVHN, LEAF, CAT, WAV, DAT, ATR, HEA]


@pytest.mark.parametrize("file", FUZZED)
def test_any_damage_is_refused_or_harmless(file: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever bytes are changed or missing, a reader refuses or returns a dataset in range, no more."""
    if file.startswith("mitdb"):
        pytest.importorskip("wfdb", reason="wfdb is in the extra ecg")
    top = tmp_path_factory.mktemp("fuzz") / "data"
    write, name, options = SETS[file.split("/")[0]]
    top.mkdir()
    write(top)
    good = (top / file).read_bytes()
    folder = make.own_folder(top.parent)
    source = registry.dataset(name, options)

    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(good)), st.binary(max_size=6), st.booleans())
    def damaged(at: int, patch: bytes, shorten: bool) -> None:
        changed = good[:at] + patch + (b"" if shorten else good[at + len(patch) :])
        (top / file).write_bytes(changed)
        try:
            data = source.read(source.files(folder), folder)
        except DataError:
            return
        assert bool(data.x.isfinite().all())
        assert 0 <= int(data.y.min()) <= int(data.y.max()) < len(data.classes)

    damaged()
