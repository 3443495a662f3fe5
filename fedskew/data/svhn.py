"""SVHN, cropped digits, from the publisher's .mat files."""

import io
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.data.dataset import Dataset
from fedskew.data.folder import File, Folder
from fedskew.data.safe import read_bytes
from fedskew.data.scale import scaled
from fedskew.data.source import Source
from fedskew.errors import DataError

URL = "http://ufldl.stanford.edu/housenumbers/"
FILES = (
    File("train_32x32.mat", f"{URL}train_32x32.mat", md5="e26dedcc434d2e4c54c9b2d4a06d8373"),
    File("test_32x32.mat", f"{URL}test_32x32.mat", md5="eb5a983be6a315427106f1b164d9cef3"),
)
LARGEST = 1 << 28  # bytes, packed or not; the training images have 225 million
HEADER, TAG, COMPRESSED = 128, 8, 15  # of the MATLAB 5 format


@dataclass(frozen=True)
class SVHN(Source):
    """House-number digits 3x32x32 (Netzer et al. 2011), 73,257 train and 26,032 test, normalised."""

    name: ClassVar[str] = "svhn"

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """train_32x32.mat and test_32x32.mat."""
        return tuple(folder.find(file, ["svhn"]) for file in FILES)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The cropped digits; the publisher's label 10 is the digit 0."""
        (x, y), (x_test, y_test) = (parse(path) for path in files)
        train, test = np.arange(len(y)), np.arange(len(y), len(y) + len(y_test))
        images = scaled(np.concatenate([x, x_test]), (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
        labels = torch.from_numpy(np.concatenate([y, y_test]))
        return Dataset(self.name, images, labels, train, test, tuple("0123456789"))


def parse(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The [n, 3, 32, 32] images and the labels 0..9 of one .mat file."""
    from scipy.io import loadmat, whosmat

    data = read_bytes(path, LARGEST)
    try:
        check_size(data)
        stream: Any = io.BytesIO(data)
        shapes = {name: (shape, kind) for name, shape, kind in whosmat(stream)}
        (side_x, side_y, colours, count), kind = shapes["X"]
        if (side_x, side_y, colours, kind) != (32, 32, 3, "uint8") or shapes["y"][0] != (count, 1):
            raise ValueError(f"X and y are {shapes['X']} and {shapes['y']}")
        found = loadmat(stream, variable_names=["X", "y"])
        x, y = np.ascontiguousarray(found["X"].transpose(3, 2, 0, 1)), found["y"][:, 0].astype(np.int64)
    except Exception as error:  # a damaged .mat can fail in any way; none of them is ours
        raise DataError(f"{path}: is no .mat file of SVHN ({error}). Get it again.") from error
    if len(y) == 0 or y.min() < 1 or y.max() > 10:
        raise DataError(f"{path}: labels are not within 1..10. Get it again.")
    return x, y % 10


def check_size(data: bytes) -> None:
    """Refuses a .mat whose packed elements unpack to more than LARGEST bytes, before scipy unpacks them."""
    at = HEADER
    while at + TAG <= len(data):
        kind, size = (int(n) for n in np.frombuffer(data, "<u4", 2, offset=at))
        if kind == COMPRESSED:
            unpack, total, rest = zlib.decompressobj(), 0, data[at + TAG : at + TAG + size]
            while rest and total <= LARGEST:
                total += len(unpack.decompress(rest, 1 << 20))
                rest = unpack.unconsumed_tail
            if total > LARGEST:
                raise ValueError(f"it unpacks to more than {LARGEST:,} bytes")
        at += TAG + size
