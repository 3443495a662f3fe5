"""The handwritten digits that come with scikit-learn: the dataset that needs no file."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder
from fedskew.data.source import Source
from fedskew.data.split import stratified


@dataclass(frozen=True)
class Digits(Source):
    """1,797 digits, 1x8x8 in [0, 1] (Alpaydin & Kaynak 1998), always the same 80 % train and 20 % test."""

    name: ClassVar[str] = "digits"

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """None: the images are inside scikit-learn."""
        return ()

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The digits, scaled from 0..16 to [0, 1]."""
        table = np.loadtxt(_table(), dtype=np.uint8, delimiter=",")
        y = table[:, -1].astype(np.int64)
        train, test = stratified(y, seed=0)
        x = torch.from_numpy(table[:, :-1].reshape(-1, 1, 8, 8).astype(np.float32) / 16)
        return Dataset(self.name, x, torch.from_numpy(y), train, test, tuple("0123456789"))


def _table() -> Path:
    """The file that scikit-learn reads; importing scikit-learn for it takes two seconds."""
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
