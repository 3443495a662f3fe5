"""Your own arrays: a .npz file, or arrays in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder
from fedskew.data.numbering import numbered
from fedskew.data.safe import npz
from fedskew.data.scale import standardised
from fedskew.data.source import Source
from fedskew.data.split import stratified
from fedskew.errors import DataError
from fedskew.ranges import Natural


@dataclass(frozen=True)
class Arrays(Source):
    """A .npz with `x` [n, ...] and `y` [n], and optionally `client` [n] and `test` [n] (true where held out).

    Without `test`, 20 % of every class (of every client) is held out; axis 1 of x holds the channels.
    """

    name: ClassVar[str] = "arrays"
    path: str
    normalise: bool = True
    seed: Natural = 0

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The .npz file."""
        return (folder.locate(self.path),)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The arrays, checked and normalised."""
        held = npz(files[0], ("x", "y", "client", "test"))
        if absent := [name for name in ("x", "y") if name not in held]:
            raise DataError(f"{files[0]}: holds no array {' and no array '.join(absent)}.")
        return from_arrays(
            held["x"],
            held["y"],
            client=held.get("client"),
            test=held.get("test"),
            normalise=self.normalise,
            seed=self.seed,
            name=str(files[0]),
        )._replace(name=self.name)


def from_arrays(
    x: ArrayLike,
    y: ArrayLike,
    client: ArrayLike | None = None,
    test: ArrayLike | None = None,
    normalise: bool = True,
    seed: int = 0,
    name: str = "arrays",
) -> Dataset:
    """A dataset of arrays in memory, with any names of classes and clients; errors speak of `name`."""
    x, y = np.asarray(x), _plain(np.asarray(y))
    client, test = (None if row is None else _plain(np.asarray(row)) for row in (client, test))
    check(x, y, client, test, name)
    labels, classes = numbered(texts(y))
    owners, clients = (None, ()) if client is None else numbered(texts(client))
    if test is None:
        train, held_out = stratified(labels, seed, groups=owners)
    else:
        train, held_out = np.flatnonzero(~test.astype(bool)), np.flatnonzero(test.astype(bool))
    if len(train) == 0:
        raise DataError(f"{name}: every sample is held out for testing, none is left for training.")
    values = torch.from_numpy(x.astype(np.float32))
    values = standardised(values, train) if normalise else values
    return Dataset(name, values, torch.from_numpy(labels), train, held_out, classes, owners, clients)


def check(
    x: NDArray[Any], y: NDArray[Any], client: NDArray[Any] | None, test: NDArray[Any] | None, name: str
) -> None:
    """Refuses arrays that do not fit together, that are no finite numbers, or have fewer than two classes."""
    for what, array in (("y", y), ("client", client), ("test", test)):
        if array is not None and array.shape != (len(x),):
            raise DataError(f"{name}: {what} has the shape {array.shape} where {(len(x),)} belongs.")
    if x.ndim < 2 or x.dtype.kind not in "buif":
        raise DataError(
            f"{name}: x is {x.dtype}{list(x.shape)}, not numbers with samples along the first axis."
        )
    with np.errstate(over="ignore"):
        finite = np.isfinite(x.astype(np.float32))
    if not finite.all():
        raise DataError(
            f"{name}: x of sample {int(np.argwhere(~finite)[0][0])} is not finite in single precision."
        )
    if not _is_whole(y):
        raise DataError(f"{name}: y has values that are no whole numbers, so they are no classes.")
    if client is not None and not _is_whole(client):
        raise DataError(f"{name}: client has values that are no whole numbers, so they name no clients.")
    if client is not None and client.dtype.kind not in "buifUS":
        raise DataError(f"{name}: client ({client.dtype}) must be numbers or text.")
    if test is not None and (test.dtype.kind not in "buif" or not np.isin(test, (0, 1)).all()):
        raise DataError(f"{name}: test must be true or false, or 1 or 0, for every sample.")
    if y.dtype.kind not in "buifUS" or len(np.unique(y)) < 2:
        raise DataError(f"{name}: y ({y.dtype}) must have at least two different classes.")


def _plain(names: NDArray[Any]) -> NDArray[Any]:
    """Objects, as a data frame has its texts in, as text or numbers where they are all one or the other."""
    kinds = {type(name) for name in names.tolist()} if names.dtype.kind == "O" else set()
    return np.array(names.tolist()) if kinds in ({str}, {int}, {bool}) else names


def _is_whole(names: NDArray[Any]) -> bool:
    """Whether numbers are whole, and small enough for each to differ from the next."""
    return names.dtype.kind != "f" or bool(((names == np.round(names)) & (np.abs(names) < 2**53)).all())


def texts(names: NDArray[Any]) -> Sequence[str]:
    """Names of classes or clients as text: whole numbers without a decimal point."""
    if names.dtype.kind == "f":
        names = names.astype(np.int64)
    if names.dtype.kind == "S":
        return [bytes(name).decode("utf-8", "replace") for name in names]
    return [str(name) for name in names.tolist()]
