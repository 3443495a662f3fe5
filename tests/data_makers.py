"""Small files in the publishers' true formats, written from the formats' descriptions, for the data tests."""

import gzip
import json
import struct
import wave
from pathlib import Path

import numpy as np

from fedskew.data.folder import Folder

RNG = np.random.default_rng(7)


def own_folder(tmp_path: Path) -> Folder:
    """A folder that knows only `tmp_path`, fetches nothing and takes files without a published hash."""
    return Folder(data_dir=tmp_path / "data", cache=tmp_path / "cache", download=False, verify=False)


def idx_bytes(array: np.ndarray) -> bytes:
    """Two zero bytes, type 8 (bytes), the number of axes, their lengths, the bytes."""
    return (
        struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    )


def write_mnist(place: Path, train: int = 12, test: int = 5) -> dict[str, np.ndarray]:
    """Four .gz files of random 28x28 images."""
    place.mkdir(parents=True, exist_ok=True)
    held = {}
    for part, count in (("train", train), ("t10k", test)):
        held[f"{part}-images-idx3-ubyte"] = RNG.integers(0, 256, (count, 28, 28))
        held[f"{part}-labels-idx1-ubyte"] = np.arange(count) % 10
    for name, array in held.items():
        (place / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(array)))
    return held


def python2_string(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text


def python2_pickle(entries: dict[bytes, np.ndarray | list[int] | list[bytes] | bytes]) -> bytes:
    """A dictionary as Python 2 pickled it (protocol 2): strings, lists of these or of bytes, byte arrays."""
    out = [b"\x80\x02}("]
    for key, value in entries.items():
        out.append(python2_string(key))
        if isinstance(value, bytes):
            out.append(python2_string(value))
        elif isinstance(value, list):
            items = [python2_string(v) if isinstance(v, bytes) else b"K" + bytes([v]) for v in value]
            out.append(b"](" + b"".join(items) + b"e")
        else:
            out.append(python2_array(value))
    return b"".join(out) + b"u."


def python2_array(array: np.ndarray, kind: bytes = b"u1") -> bytes:
    """numpy's reconstruct(ndarray, (0,), 'b'), then its state: version, shape, dtype, order, bytes."""
    shape = b"".join(b"J" + struct.pack("<i", n) for n in array.shape)
    state = b"(K\x03U\x01|NNN" + 2 * b"J\xff\xff\xff\xff" + b"K\x00t"
    dtype = b"cnumpy\ndtype\n(" + python2_string(kind) + b"K\x00K\x01tR" + state + b"b"
    start = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    return start + b"(K\x01(" + shape + b"t" + dtype + b"\x89" + python2_string(array.tobytes()) + b"tb"


def cifar_images(count: int, classes: int) -> tuple[np.ndarray, list[int]]:
    return RNG.integers(0, 256, (count, 3072)).astype(np.uint8), [k % classes for k in range(count)]


def write_cifar10_python(place: Path, count: int = 20) -> dict[str, tuple[np.ndarray, list[int]]]:
    place.mkdir(parents=True, exist_ok=True)
    held = {}
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        x, y = held[name] = cifar_images(count, 10)
        names = [b"picture_%d.png" % k for k in range(count)]
        entries = {b"batch_label": b"a batch", b"labels": y, b"data": x, b"filenames": names}
        (place / name).write_bytes(python2_pickle(entries))
    return held


def write_cifar10_binary(place: Path, count: int = 20) -> dict[str, tuple[np.ndarray, list[int]]]:
    place.mkdir(parents=True, exist_ok=True)
    held = {}
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        x, y = held[name] = cifar_images(count, 10)
        rows = [bytes([label]) + row.tobytes() for label, row in zip(y, x, strict=True)]
        (place / f"{name}.bin").write_bytes(b"".join(rows))
    return held


def write_cifar100(place: Path, binary: bool, count: int = 100) -> dict[str, tuple[np.ndarray, list[int]]]:
    place.mkdir(parents=True, exist_ok=True)
    held = {}
    for name in ("train", "test"):
        x, y = held[name] = cifar_images(count, 100)
        if binary:
            rows = [bytes([label // 5, label]) + row.tobytes() for label, row in zip(y, x, strict=True)]
            (place / f"{name}.bin").write_bytes(b"".join(rows))
        else:
            coarse = [label // 5 for label in y]
            entries = {b"coarse_labels": coarse, b"fine_labels": y, b"data": x, b"batch_label": b"all"}
            (place / name).write_bytes(python2_pickle(entries))
    return held


def write_svhn(place: Path, count: int = 20) -> dict[str, np.ndarray]:
    from scipy.io import savemat

    place.mkdir(parents=True, exist_ok=True)
    held = {}
    for part in ("train", "test"):
        x = RNG.integers(0, 256, (32, 32, 3, count)).astype(np.uint8)
        y = (np.arange(count) % 10 + 1).astype(np.uint8)[:, None]  # ten stands for the digit zero
        savemat(place / f"{part}_32x32.mat", {"X": x, "y": y}, do_compression=True)
        held[part] = x
    return held


def write_images(
    place: Path, classes: list[str], count: int = 2, side: int = 32, ending: str = ".png"
) -> None:
    from PIL import Image

    for name in classes:
        (place / name).mkdir(parents=True, exist_ok=True)
        for k in range(count):
            pixels = RNG.integers(0, 256, (side, side, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(place / name / f"picture_{k}{ending}")


def write_leaf(place: Path, writers: int = 4, count: int = 5) -> None:
    for part in ("train", "test"):
        (place / part).mkdir(parents=True, exist_ok=True)
        names = [f"f{k:04d}_{k}" for k in range(writers)]
        data = {
            name: {"x": RNG.random((count, 784)).round(3).tolist(), "y": RNG.integers(0, 62, count).tolist()}
            for name in names
        }
        leaf = {"users": names, "num_samples": [count] * writers, "user_data": data}
        (place / part / f"all_data_0_niid_0_keep_0_{part}_9.json").write_text(json.dumps(leaf))


def wav_bytes(path: Path, samples: np.ndarray, rate: int = 16_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as clip:
        clip.setparams((1, 2, rate, 0, "NONE", ""))
        clip.writeframes(samples.astype("<i2").tobytes())


def write_speech(place: Path, words: list[str], speakers: int = 6) -> None:
    """Every speaker says every word; the last speaker is for testing, the one before for validation."""
    names = [f"{k:08x}_nohash_0.wav" for k in range(speakers)]
    for word in words:
        for k, name in enumerate(names):
            wav_bytes(place / word / name, RNG.integers(-9000, 9000, 12_000 + 1000 * k))
    (place / "testing_list.txt").write_text("".join(f"{word}/{names[-1]}\n" for word in words))
    (place / "validation_list.txt").write_text("".join(f"{word}/{names[-2]}\n" for word in words))


def signal_212(first: np.ndarray, second: np.ndarray) -> bytes:
    """PhysioNet's format 212: two 12-bit samples in three bytes."""
    a, b = first.astype(np.int64) & 0xFFF, second.astype(np.int64) & 0xFFF
    return np.stack([a & 255, (a >> 8) | ((b >> 8) << 4), b & 255], 1).astype(np.uint8).tobytes()


def annotations(beats: list[tuple[int, int]]) -> bytes:
    """PhysioNet's MIT format: (code << 10 | samples since the last beat) in two bytes, zero at the end."""
    out, last = b"", 0
    for at, code in beats:
        gap = at - last
        if gap > 1023:  # SKIP: 59 and a four-byte interval, high half first
            out += struct.pack("<HHH", 59 << 10, gap >> 16, gap & 0xFFFF)
            gap = 0
        out += struct.pack("<H", code << 10 | gap)
        last = at
    return out + b"\0\0"


def write_record(
    place: Path, name: str, leads: tuple[str, str], beats: list[tuple[int, int]], length: int
) -> np.ndarray:
    """A two-lead record; returns the samples of both leads."""
    place.mkdir(parents=True, exist_ok=True)
    samples = RNG.integers(-500, 500, (2, length))
    (place / f"{name}.dat").write_bytes(signal_212(*samples))
    (place / f"{name}.atr").write_bytes(annotations(beats))
    lines = [f"{name} 2 360 {length}"]
    lines += [f"{name}.dat 212 200 11 0 {s[0]} 0 0 {lead}" for s, lead in zip(samples, leads, strict=True)]
    (place / f"{name}.hea").write_text("\n".join(lines) + "\n")
    return samples
