"""What `fedskew data ls|get|check|path` say, as values; the command line gives them their form."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder, Progress, silent
from fedskew.data.registry import DATASETS, dataset, settings
from fedskew.errors import DataError

Options = Mapping[str, object]


class Listed(NamedTuple):
    """One line of the list of datasets."""

    name: str
    about: str
    state: str  # embedded, here, absent, or yours: it needs options
    place: Path | None = None
    options: tuple[str, ...] = ()


class Checked(NamedTuple):
    """What was found in the files of a dataset, read afresh."""

    name: str
    files: tuple[tuple[Path, str], ...]  # with their SHA-256
    shape: tuple[int, ...]
    train: dict[str, int]  # class -> samples
    test: dict[str, int]
    clients: int | None


def listing(data_dir: Path | None = None) -> list[Listed]:
    """Every dataset, and whether its files are on this machine; nothing is fetched and no hash computed."""
    return [_listed(name, Folder(data_dir, download=False, verify=False)) for name in DATASETS]


def _listed(name: str, folder: Folder) -> Listed:
    cls, about = settings(name), DATASETS[name].about
    options = tuple(field.name for field in fields(cls))
    if "path" in options:
        return Listed(name, about, "yours", None, options)
    try:
        files = cls().files(folder)
    except DataError:
        return Listed(name, about, "absent", None, options)
    return Listed(name, about, "here" if files else "embedded", common(files), options)


def common(files: tuple[Path, ...]) -> Path | None:
    """The folder all files are in, or the file if it is only one."""
    if len(files) < 2:
        return files[0] if files else None
    return next((at for at in files[0].parents if all(file.is_relative_to(at) for file in files)), None)


def where(name: str, data_dir: Path | None = None, options: Options | None = None) -> tuple[Path, ...]:
    """The files a dataset would be read from, hashes checked, nothing fetched; none if it is embedded."""
    return dataset(name, options).files(Folder(data_dir, download=False))


def get(
    name: str, data_dir: Path | None = None, options: Options | None = None, progress: Progress = silent
) -> Dataset:
    """Fetches what is missing, prepares the dataset for fast loading, and returns it."""
    return dataset(name, options).load(Folder(data_dir, progress=progress))


def check(
    name: str, data_dir: Path | None = None, options: Options | None = None, progress: Progress = silent
) -> Checked:
    """Reads the files of a dataset afresh, past the prepared copy, and counts what is in them."""
    folder, source = Folder(data_dir, download=False, progress=progress), dataset(name, options)
    files = source.files(folder)
    data = source.read(files, folder)
    return Checked(
        name=name,
        files=tuple((path, folder.digest(path, "sha256")) for path in files),
        shape=tuple(data.x.shape[1:]),
        train=per_class(data, data.train),
        test=per_class(data, data.test),
        clients=None if data.owners is None else len(np.unique(data.owners)),
    )


def per_class(data: Dataset, positions: np.typing.NDArray[np.int64]) -> dict[str, int]:
    """How many of the samples at `positions` each class has."""
    counts = np.bincount(data.y.numpy()[positions], minlength=len(data.classes))
    return dict(zip(data.classes, counts.tolist(), strict=True))
