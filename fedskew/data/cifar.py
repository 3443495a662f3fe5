"""CIFAR-10 and CIFAR-100 from the python batches or the binary version, unpacked or in the archive.

The python batches are pickles. This is the only module that may import pickle, and it runs nothing from one:
its operations are checked against a list first, and the numpy names in it stand for the few lines below.
"""

import io
import pickle
import pickletools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.data.cifar_files import HUNDRED, OBJECTS, TEN, THINGS, Layout, Piece, contents, find
from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder
from fedskew.data.scale import scaled
from fedskew.data.source import Source
from fedskew.errors import ConfigError, DataError

PIXELS = 3 * 32 * 32
HARMLESS = (
    "PROTO STOP MARK EMPTY_DICT EMPTY_LIST APPEND APPENDS SETITEM SETITEMS GLOBAL REDUCE BUILD TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 SHORT_BINSTRING BINSTRING BINPUT LONG_BINPUT "
    "BINGET LONG_BINGET"
)
OPERATIONS = frozenset(HARMLESS.split())
Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]  # [n, 3072] pixels, [n] labels


@dataclass(frozen=True)
class CIFAR10(Source):
    """Photographs 3x32x32 in ten classes (Krizhevsky 2009), normalised; `batches` asks for some of 1..5."""

    name: ClassVar[str] = "cifar10"
    batches: Sequence[int] | None = None

    def __post_init__(self) -> None:
        chosen = tuple(range(1, 6) if self.batches is None else self.batches)
        if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= {1, 2, 3, 4, 5}:
            raise ConfigError(f"cifar10: batches = {list(chosen)} must be different numbers of 1..5.")
        object.__setattr__(self, "batches", chosen)

    def forms(self) -> list[Layout]:
        """Both published forms, with the chosen batches only."""
        return [form._replace(train=tuple(form.train[k - 1] for k in self.batches or ())) for form in TEN]

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The chosen training batches and the test batch, or the archive that holds them."""
        return find(self.forms(), self.name, folder)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """10,000 training images a batch and 10,000 test images."""
        mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
        return pool(self.name, *contents(self.forms(), files), OBJECTS, mean, std)


@dataclass(frozen=True)
class CIFAR100(Source):
    """Photographs 3x32x32 in a hundred classes (Krizhevsky 2009), normalised."""

    name: ClassVar[str] = "cifar100"

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The training and the test file, or the archive that holds them."""
        return find(HUNDRED, self.name, folder)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """50,000 training and 10,000 test images with their fine labels."""
        mean, std = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
        return pool(self.name, *contents(HUNDRED, files), THINGS, mean, std)


def pool(
    name: str,
    form: Layout,
    pieces: list[Piece],
    classes: tuple[str, ...],
    mean: Sequence[float],
    std: Sequence[float],
) -> Dataset:
    """One pool of the training files and, last, the test file."""
    batches = [decode(piece, form.labels, len(classes)) for piece in pieces]
    x = np.concatenate([pixels for pixels, _ in batches]).reshape(-1, 3, 32, 32)
    y = np.concatenate([labels for _, labels in batches])
    first_test = len(y) - len(batches[-1][1])
    train, test = np.arange(first_test), np.arange(first_test, len(y))
    return Dataset(name, scaled(x, mean, std), torch.from_numpy(y), train, test, classes)


def decode(piece: Piece, labels: bytes | int, classes: int) -> Batch:
    """The images and labels of one file of either form, checked."""
    x, y = binary(piece, labels) if isinstance(labels, int) else python(piece, labels)
    if len(y) == 0 or len(x) != len(y):
        raise DataError(f"{piece.where}: {len(x)} images and {len(y)} labels. Get it again.")
    if y.min() < 0 or y.max() >= classes:
        raise DataError(f"{piece.where}: labels {y.min()}..{y.max()} are not within 0..{classes - 1}.")
    return x, y


def binary(piece: Piece, label_bytes: int) -> Batch:
    """A file of the binary version: before each image its label, in CIFAR-100 coarse, then fine."""
    row = label_bytes + PIXELS
    if len(piece.data) % row:
        raise DataError(f"{piece.where}: {len(piece.data)} bytes are no multiple of {row}. Get it again.")
    rows = np.frombuffer(piece.data, np.uint8).reshape(-1, row)
    return rows[:, label_bytes:], rows[:, label_bytes - 1].astype(np.int64)


def python(piece: Piece, labels: bytes) -> Batch:
    """A python batch: a dictionary with the pixels under 'data' and a list of labels."""
    try:
        check_operations(piece.data)
        found = _Reader(io.BytesIO(piece.data), encoding="bytes").load()
        x, y = found[b"data"], np.asarray(found[labels])
    except Exception as error:  # a damaged pickle can fail in any way; none of them is ours
        raise DataError(f"{piece.where}: is no python batch of CIFAR ({error}). Get it again.") from error
    if not isinstance(x, _Pixels) or x.values.shape[1:] != (PIXELS,) or y.ndim != 1 or y.dtype.kind != "i":
        raise DataError(
            f"{piece.where}: does not hold rows of {PIXELS} bytes and as many labels. Get it again."
        )
    return x.values, y.astype(np.int64)


def check_operations(data: bytes) -> None:
    """Refuses a pickle with an operation, or a memory index, that the published batches do not have."""
    for count, (operation, argument, _) in enumerate(pickletools.genops(data)):
        if operation.name not in OPERATIONS:
            raise ValueError(f"operation {operation.name}")
        if operation.name.endswith("PUT") and isinstance(argument, int) and argument > count + 1:
            raise ValueError(f"memory index {argument}")


class _Pixels:
    """Stands for numpy.ndarray in a batch: takes a shape and bytes, nothing else."""

    values: NDArray[np.uint8]

    def __setstate__(self, state: tuple[int, tuple[int, ...], object, bool, bytes]) -> None:
        _, shape, _, fortran, data = state
        if fortran:
            raise ValueError("pixels in columns")
        self.values = np.frombuffer(data, np.uint8).reshape(shape)


class _Kind:
    """Stands for numpy.dtype in a batch: bytes only."""

    def __init__(self, code: bytes, align: int, copy: int) -> None:
        if code != b"u1":
            raise ValueError(f"numbers of type {code!r}")

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment say nothing about single bytes."""


def _new(kind: type, shape: object, code: object) -> _Pixels:
    """Stands for numpy's _reconstruct: an empty array that is filled by __setstate__."""
    return _Pixels()


class _Reader(pickle.Unpickler):
    """Knows the three names of a published batch, each as a stand-in, and refuses every other."""

    def find_class(self, module: str, name: str) -> object:
        known = {
            ("numpy.core.multiarray", "_reconstruct"): _new,
            ("numpy", "ndarray"): _Pixels,
            ("numpy", "dtype"): _Kind,
        }
        if (module, name) not in known:
            raise ValueError(f"the name {module}.{name}")
        return known[module, name]
