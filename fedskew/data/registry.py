"""Every dataset by name: which class holds its options, and how to load it."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedskew.errors import ConfigError, unknown

if TYPE_CHECKING:
    from fedskew.data.dataset import Dataset
    from fedskew.data.folder import Folder
    from fedskew.data.source import Source


class Entry(NamedTuple):
    """Where the settings class of a dataset is defined and what the dataset is."""

    module: str
    cls: str
    about: str


# Modules are named, not imported: listing the names must not wait for torch.
DATASETS: dict[str, Entry] = {
    "digits": Entry("digits", "Digits", "1,797 handwritten digits 8x8, embedded in scikit-learn"),
    "synthetic": Entry("synthetic", "Synthetic", "clients with logistic models of their own (FedProx, LEAF)"),
    "mnist": Entry("idx", "MNIST", "70,000 handwritten digits 28x28"),
    "fashion-mnist": Entry("idx", "FashionMNIST", "70,000 articles of clothing 28x28"),
    "cifar10": Entry("cifar", "CIFAR10", "60,000 photographs 3x32x32 in ten classes"),
    "cifar100": Entry("cifar", "CIFAR100", "60,000 photographs 3x32x32 in a hundred classes"),
    "svhn": Entry("svhn", "SVHN", "99,289 house-number digits 3x32x32"),
    "cinic10": Entry("images", "CINIC10", "270,000 photographs 3x32x32 in CIFAR-10's classes"),
    "imagenet-subset": Entry("images", "ImageNetSubset", "twelve ImageNet classes, 3x64x64"),
    "femnist": Entry("femnist", "FEMNIST", "handwritten characters 28x28 by writer (LEAF)"),
    "kws": Entry("kws", "KWS", "ten spoken words by speaker as 50x16 MFCC (Speech Commands)"),
    "mit-bih": Entry("mitbih", "MITBIH", "heartbeats of 46 ECG records in twelve classes (PhysioNet)"),
    "image-folder": Entry("images", "ImageFolder", "your own images, one folder a class"),
    "csv": Entry("table", "CSV", "your own numbers, a .csv or .csv.gz table"),
    "parquet": Entry("table", "Parquet", "your own numbers, a .parquet table"),
    "arrays": Entry("arrays", "Arrays", "your own arrays, a .npz file"),
}


def names() -> tuple[str, ...]:
    """The names `dataset` and `load` accept."""
    return tuple(DATASETS)


def settings(name: str) -> "type[Source]":
    """The settings class of the dataset `name`."""
    if name not in DATASETS:
        raise ConfigError(unknown("dataset", name, DATASETS))
    entry = DATASETS[name]
    found: type[Source] = getattr(import_module(f"fedskew.data.{entry.module}"), entry.cls)
    return found


def dataset(name: str, options: Mapping[str, object] | None = None) -> "Source":
    """The settings object of the dataset `name` with `options` filled in."""
    from fedskew.ranges import built

    found: Source = built(settings(name), options or {}, f"dataset {name}")
    return found


def load(
    name: str,
    options: Mapping[str, object] | None = None,
    data_dir: str | Path | None = None,
    folder: "Folder | None" = None,
) -> "Dataset":
    """The dataset `name` from `data_dir`, $FEDSKEW_DATA, the user's cache or its publisher, in this order."""
    from fedskew.data.folder import Folder

    if folder is None:
        folder = Folder(data_dir=None if data_dir is None else Path(data_dir))
    return dataset(name, options).load(folder)
