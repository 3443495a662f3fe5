"""Images in folders, one folder a class: CINIC-10, twelve classes of ImageNet, and your own."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.data.archive import ARCHIVES, entries
from fedskew.data.cifar_files import OBJECTS
from fedskew.data.dataset import Dataset, Indices
from fedskew.data.folder import File, Folder
from fedskew.data.numbering import numbered
from fedskew.data.safe import image, read_bytes
from fedskew.data.scale import scaled, statistics_of_bytes
from fedskew.data.source import Source
from fedskew.data.split import stratified
from fedskew.errors import ConfigError, DataError
from fedskew.ranges import Natural

LARGEST = 1 << 26  # bytes of one image file
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
SPLITS = {"train": "train", "test": "test", "val": "valid", "valid": "valid", "validation": "valid"}
CINIC_URL = "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz"


class Picture(NamedTuple):
    """One image of a tree: where it was, which part and class its folders name, its bytes."""

    name: str
    split: str  # train, test, valid, or nothing where the tree has no such folders
    label: str
    pixels: NDArray[np.uint8]


@dataclass(frozen=True)
class CINIC10(Source):
    """CIFAR-10's classes from CIFAR-10 and ImageNet, 3x32x32 (Darlow et al. 2018), normalised.

    Layout: {train,valid,test}/<class>/*.png, 90,000 each; `with_validation` adds the middle part to train.
    """

    name: ClassVar[str] = "cinic10"
    with_validation: bool = False

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The folder CINIC-10, or the publisher's archive of it."""
        below = ["CINIC-10", "cinic-10", "cinic10", "CINIC10"]
        for place in folder.under(below):
            if (place / "train").is_dir() and (place / "test").is_dir():
                return (place,)
        packed = File("CINIC-10.tar.gz", CINIC_URL, md5="6ee4d0c996905fe93221de577967a372")
        return (folder.find(packed, ["cinic10"]),)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The images of the ten classes, each exactly 32x32."""
        found = pictures(files[0], 32, colour=True, resize=False, folder=folder)
        mean, std = (0.4789, 0.4723, 0.4305), (0.2421, 0.2383, 0.2587)
        kept = [p for p in found if p.split != "valid" or self.with_validation]
        return pool(self.name, kept, files[0], OBJECTS, (mean, std))


@dataclass(frozen=True)
class ImageNetSubset(Source):
    """Twelve classes of ImageNet at 3x64x64 (as in FedLC), cut to a square, scaled and normalised.

    Layout: {train,val}/<class>/*.JPEG with twelve class folders each; the publisher's `val` is the test part.
    """

    name: ClassVar[str] = "imagenet-subset"
    size: int = 64

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The folder imagenet-subset; ImageNet may not be passed on, so it is never fetched."""
        for place in folder.under(["imagenet-subset"]):
            if (place / "train").is_dir():
                return (place,)
        raise DataError(
            f"{folder.roots()[0] / 'imagenet-subset'}: not found. Get ImageNet from image-net.org and copy "
            "twelve of its class folders there as train/<class>/*.JPEG and val/<class>/*.JPEG."
        )

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The images of the twelve classes."""
        found = pictures(files[0], self.size, colour=True, resize=True, folder=folder)
        found = [p._replace(split="test") if p.split == "valid" else p for p in found]
        classes = tuple(sorted({p.label for p in found}))
        if len(classes) != 12:
            raise DataError(f"{files[0]}: {len(classes)} class folders where twelve belong.")
        return pool(self.name, found, files[0], classes, ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


@dataclass(frozen=True)
class ImageFolder(Source):
    """Your own images: <class>/*.png, or {train,test}/<class>/*.png, in a folder, a .zip or a .tar.gz.

    `clients` names a .csv with the columns file and client; without a test folder 20 % of each class is test.
    """

    name: ClassVar[str] = "image-folder"
    path: str
    size: int = 32
    colour: bool = True
    clients: str | None = None
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 1024:
            raise ConfigError(f"image-folder: size = {self.size} is not within 1..1024 pixels.")

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The folder or archive, and the table of clients."""
        top = folder.locate(self.path)
        if not top.is_dir() and not top.name.endswith(ARCHIVES):
            raise DataError(f"{top}: is neither a folder nor one of {', '.join(ARCHIVES)}.")
        return (top,) if self.clients is None else (top, folder.locate(self.clients))

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The images, scaled to `size` and normalised by the training images' own mean and deviation."""
        found = pictures(files[0], self.size, self.colour, resize=True, folder=folder)
        found = [p._replace(split="train") if p.split == "valid" else p for p in found]
        classes = tuple(sorted({p.label for p in found}))
        owners, clients = clients_of(found, files[1]) if len(files) > 1 else (None, ())
        return pool(self.name, found, files[0], classes, None, owners, self.seed)._replace(clients=clients)


def pictures(top: Path, size: int, colour: bool, resize: bool, folder: Folder) -> list[Picture]:
    """Every image below `top`, in the order of the names."""
    pixels = {}
    for done, entry in enumerate(entries(top, _is_picture, LARGEST), 1):
        pixels[entry.name] = image(entry.data, top / entry.name, size, colour, resize)
        folder.progress(f"reading {top.name}", done, 0)
    if not pixels:
        raise DataError(f"{top}: holds no image ({', '.join(ENDINGS)}) in a class folder.")
    names = sorted(pixels)
    return [
        Picture(name, *where, pixels[name]) for name, where in zip(names, _places(names, top), strict=True)
    ]


def _is_picture(name: str) -> bool:
    """Not what systems and notebooks leave behind: hidden files and folders, __MACOSX."""
    parts = PurePosixPath(name).parts
    left_behind = any(part.startswith(".") or part == "__MACOSX" for part in parts)
    return name.lower().endswith(ENDINGS) and not left_behind


def _places(names: Sequence[str], top: Path) -> list[tuple[str, str]]:
    """Which part and class the folders of each picture name: all of them class/file, or all train/class/file."""
    paths = [PurePosixPath(name).parts for name in names]
    while (
        len({path[0] for path in paths}) == 1
        and min(map(len, paths)) > 2
        and paths[0][0].lower() not in SPLITS
    ):
        paths = [path[1:] for path in paths]  # a folder around everything
    parted = all(path[0].lower() in SPLITS for path in paths)
    for name, path in zip(names, paths, strict=True):
        if len(path) != 2 + parted:
            raise DataError(
                f"{top / name}: should be in a class folder, as {'train/' * parted}<class>/{path[-1]}, like all others."
            )
    return [(SPLITS[path[0].lower()] if parted else "", path[-2]) for path in paths]


def pool(
    name: str,
    found: list[Picture],
    top: Path,
    classes: tuple[str, ...],
    normal: tuple[Sequence[float], Sequence[float]] | None,
    owners: Indices | None = None,
    seed: int = 0,
) -> Dataset:
    """One pool of the pictures, normalised as given or by the training pictures' mean and deviation."""
    strange = sorted({p.label for p in found} - set(classes))
    if strange:
        raise DataError(f"{top}: class folders {', '.join(strange)} are not among {', '.join(classes)}.")
    if len(classes) < 2:
        raise DataError(f"{top}: one class folder only ({classes[0]}); at least two are needed.")
    y = np.array([classes.index(p.label) for p in found])
    is_test = np.array([p.split == "test" for p in found])
    if is_test.any():
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    else:
        train, test = stratified(y, seed, groups=owners)
    pixels = np.stack([p.pixels for p in found])
    mean, std = normal or statistics_of_bytes(pixels[train])
    return Dataset(name, scaled(pixels, mean, std), torch.from_numpy(y), train, test, classes, owners)


def clients_of(found: list[Picture], table: Path) -> tuple[Indices, tuple[str, ...]]:
    """The client that a .csv with the columns file and client gives to each picture, by number; their names."""
    try:
        rows = list(csv.DictReader(io.StringIO(read_bytes(table, LARGEST).decode("utf-8-sig"))))
        client = {row["file"]: (row["client"] or "").strip() for row in rows}
    except (KeyError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{table}: is no .csv with the columns file and client ({error}).") from error
    if len(client) < len(rows):
        raise DataError(f"{table}: {len(rows) - len(client)} files are listed more than once.")
    missing = [p.name for p in found if not client.get(p.name)]
    if missing:
        raise DataError(f"{table}: no client for {missing[0]} and {len(missing) - 1} more.")
    return numbered([client[p.name] for p in found])
