"""Predictions of a trained model for examples from a file."""

from __future__ import annotations

import csv
import io
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedskew.data.safe import npz
from fedskew.data.table import numbers, read_csv
from fedskew.errors import DataError, unknown
from fedskew.use import Taken


def inputs(path: Path, taken: Taken) -> Tensor:
    """Examples from a .npy, .npz (array `x`) or .csv file, in the shape that the network takes."""
    if path.suffix not in READERS:
        raise DataError(f"{path}: {unknown('kind of input', path.suffix, READERS)}")
    found = READERS[path.suffix](path, taken)
    if found.dtype.kind not in "buif" or not np.isfinite(found).all():
        raise DataError(f"{path}: holds something that is no finite number.")
    if found.shape[1:] not in _spellings(taken.shape) or not len(found):
        wanted = " x ".join(map(str, taken.shape))
        raise DataError(f"{path}: is {list(found.shape)}; the network takes [examples, {wanted}].")
    dtype = torch.float32 if taken.scale else getattr(torch, taken.config.dtype)
    native = found.astype(found.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(native.reshape(-1, *taken.shape)).to(dtype)


def _spellings(shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    """An example in its own shape, without axes of length 1, or flat; another order of axes is another example."""
    return {shape, tuple(size for size in shape if size > 1), (prod(shape),)}


def _npy(path: Path, _: Taken) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: is no .npy file of plain numbers ({error}).") from error


def _npz(path: Path, _: Taken) -> NDArray[Any]:
    found = npz(path, ("x",))
    if "x" not in found:
        raise DataError(f"{path}: holds no array x.")
    return found["x"]


def _csv(path: Path, taken: Taken) -> NDArray[Any]:
    table = read_csv(path, str(taken.config.data.options.get("separator", ",")))
    names = taken.inputs or tuple(table.columns)
    if absent := [name for name in names if name not in table.columns]:
        raise DataError(f"{path}: lacks the column {absent[0]!r}, which the model was trained on.")
    return np.stack([numbers(table, name, path) for name in names], axis=1)


READERS = {".npy": _npy, ".npz": _npz, ".csv": _csv}


def scores(taken: Taken, x: Tensor, batch: int = 1000) -> Tensor:
    """The network's answer [N, C] to raw inputs: the higher, the more of the class."""
    module = taken.module
    with torch.no_grad():
        return torch.cat([module(piece) for piece in torch.split(x, batch)])


def sheet(taken: Taken, found: Tensor) -> str:
    """Predictions as CSV: the class, and the score of every class."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "class", *(f"score {name}" for name in taken.classes)])
    for row, (best, values) in enumerate(zip(found.argmax(1).tolist(), found.tolist(), strict=True)):
        writer.writerow([row, taken.classes[best], *(f"{value:.6g}" for value in values)])
    return out.getvalue()
