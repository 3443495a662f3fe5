"""FEMNIST from the json files that LEAF's scripts write; its clients are the writers."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder
from fedskew.data.numbering import numbered
from fedskew.data.safe import read_bytes
from fedskew.data.scale import standardised
from fedskew.data.source import Source
from fedskew.errors import DataError

LARGEST = 1 << 30  # bytes of one json file; LEAF writes a hundred writers into each
CLASSES = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class Writer(NamedTuple):
    """What one writer has in one file."""

    name: str
    x: NDArray[np.float32]
    y: NDArray[np.int64]


@dataclass(frozen=True)
class FEMNIST(Source):
    """62 handwritten characters 1x28x28 by writer (Caldas et al. 2018, LEAF), normalised.

    Layout: femnist/train/*.json and femnist/test/*.json, as LEAF's `preprocess.sh -t sample` makes them.
    """

    name: ClassVar[str] = "femnist"

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """All json files, those of the training part first."""
        for place in folder.places(["femnist", "femnist/data", "leaf/data/femnist/data"]):
            parts = [sorted((place / part).glob("*.json")) for part in ("train", "test")]
            if all(parts):
                return (*parts[0], *parts[1])
        raise DataError(
            f"{folder.roots()[0] / 'femnist'}: no train/*.json and test/*.json. Make them with LEAF's "
            "data/femnist/preprocess.sh (github.com/TalwalkarLab/leaf) and put both folders there."
        )

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """Every writer's characters."""
        found = []
        for done, path in enumerate(files, 1):
            found.append(parse(path))
            folder.progress("reading femnist", done, len(files))
        parts = [
            (path.parent.name == "test", writer)
            for path, held in zip(files, found, strict=True)
            for writer in held
        ]
        sizes = [len(writer.y) for _, writer in parts]
        is_test = np.repeat([test for test, _ in parts], sizes)
        writer_of, writers = numbered([writer.name for _, writer in parts])
        owners = np.repeat(writer_of, sizes)
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
        x = torch.from_numpy(np.concatenate([writer.x for _, writer in parts])).reshape(-1, 1, 28, 28)
        y = torch.from_numpy(np.concatenate([writer.y for _, writer in parts]))
        return Dataset(self.name, standardised(x, train), y, train, test, CLASSES, owners, writers)


def parse(path: Path) -> list[Writer]:
    """The writers of one json file in the order of its list of users."""
    try:
        held = json.loads(read_bytes(path, LARGEST))
        users, data = held["users"], held["user_data"]
        found = [Writer(str(u), np.array(data[u]["x"], np.float32), np.array(data[u]["y"])) for u in users]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path}: is no json file of LEAF ({type(error).__name__}: {error}). Make it again."
        ) from error
    for writer in found:
        check(writer, path)
    return [writer._replace(y=writer.y.astype(np.int64)) for writer in found]


def check(writer: Writer, path: Path) -> None:
    """Refuses images that are not 784 numbers within 0..1, and labels that are not 0..61."""
    where = f"{path}: writer {writer.name}"
    if writer.x.shape != (len(writer.y), 784) or len(writer.y) == 0:
        raise DataError(f"{where} has images of shape {writer.x.shape} for {len(writer.y)} labels.")
    if not (np.isfinite(writer.x).all() and writer.x.min() >= 0 and writer.x.max() <= 1):
        raise DataError(f"{where} has pixels that are not within 0..1.")
    if writer.y.dtype.kind != "i" or writer.y.min() < 0 or writer.y.max() >= len(CLASSES):
        raise DataError(f"{where} has labels that are not within 0..{len(CLASSES) - 1}.")
