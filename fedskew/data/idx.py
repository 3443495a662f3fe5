"""MNIST and Fashion-MNIST from their publishers' IDX files."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.data.dataset import Dataset
from fedskew.data.folder import File, Folder
from fedskew.data.safe import gunzip
from fedskew.data.scale import scaled
from fedskew.data.source import Source
from fedskew.errors import DataError

LARGEST = 1 << 26  # bytes of decompressed IDX; the training images have 47 million
MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # the package dataset-fashion-mnist
IMAGES, LABELS = "images-idx3-ubyte.gz", "labels-idx1-ubyte.gz"

MNIST_FILES = (
    File(
        f"train-{IMAGES}",
        f"{MNIST_URL}train-{IMAGES}",
        sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        content="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    File(
        f"train-{LABELS}",
        f"{MNIST_URL}train-{LABELS}",
        sha256="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        content="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    File(
        f"t10k-{IMAGES}",
        f"{MNIST_URL}t10k-{IMAGES}",
        sha256="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        content="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    File(
        f"t10k-{LABELS}",
        f"{MNIST_URL}t10k-{LABELS}",
        sha256="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        content="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
FASHION_FILES = (
    File(
        f"train-{IMAGES}",
        f"{FASHION_URL}train-{IMAGES}",
        md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        content="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    File(
        f"train-{LABELS}",
        f"{FASHION_URL}train-{LABELS}",
        md5="25c81989df183df01b3e8a0aad5dffbe",
        content="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
    File(
        f"t10k-{IMAGES}",
        f"{FASHION_URL}t10k-{IMAGES}",
        md5="bef4ecab320f06d8554ea6380940ec79",
        content="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    File(
        f"t10k-{LABELS}",
        f"{FASHION_URL}t10k-{LABELS}",
        md5="bb300cfdad3c16e7a12a480ee83cd310",
        content="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


@dataclass(frozen=True)
class MNIST(Source):
    """Handwritten digits 1x28x28 (LeCun et al. 1998), normalised with (0.1307, 0.3081)."""

    name: ClassVar[str] = "mnist"

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The four .gz files of the publisher."""
        return tuple(folder.find(file, ["mnist"]) for file in MNIST_FILES)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """60,000 training and 10,000 test digits."""
        return pool(self.name, files, tuple("0123456789"), 0.1307, 0.3081)


@dataclass(frozen=True)
class FashionMNIST(Source):
    """Articles of clothing 1x28x28 (Xiao et al. 2017), also taken from Debian's package; normalised."""

    name: ClassVar[str] = "fashion-mnist"

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The four .gz files of the publisher, or Debian's with the same content."""
        return tuple(folder.find(file, ["fashion-mnist"], also=[DEBIAN]) for file in FASHION_FILES)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """60,000 training and 10,000 test articles."""
        return pool(self.name, files, CLOTHES, 0.2860, 0.3530)


def pool(name: str, files: tuple[Path, ...], classes: tuple[str, ...], mean: float, std: float) -> Dataset:
    """One pool of the training and test images and labels in four IDX files."""
    arrays = [parse(path, dimensions) for path, dimensions in zip(files, (3, 1, 3, 1), strict=True)]
    for images, labels, path in ((arrays[0], arrays[1], files[1]), (arrays[2], arrays[3], files[3])):
        if len(images) != len(labels):
            raise DataError(f"{path}: {len(labels)} labels for {len(images)} images. Get both files again.")
        if len(labels) and labels.max() >= len(classes):
            raise DataError(f"{path}: label {labels.max()} is not within 0..{len(classes) - 1}.")
    if arrays[0].shape[1:] != arrays[2].shape[1:]:
        raise DataError(
            f"{files[2]}: images of {arrays[2].shape[1:]} pixels, and of {arrays[0].shape[1:]} for training."
        )
    x = np.concatenate([arrays[0], arrays[2]])[:, None]
    y = torch.from_numpy(np.concatenate([arrays[1], arrays[3]]).astype(np.int64))
    train = np.arange(len(arrays[0]))
    return Dataset(name, scaled(x, (mean,), (std,)), y, train, np.arange(len(train), len(x)), classes)


def parse(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The bytes of a gzipped IDX file as an array of `dimensions` axes."""
    data = gunzip(path, LARGEST)
    start = 4 + 4 * dimensions
    if data[:4] != bytes([0, 0, 8, dimensions]) or len(data) < start:
        raise DataError(f"{path}: does not begin as an IDX file of {dimensions} axes of bytes. Get it again.")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", dimensions, offset=4))
    size = int(np.prod(shape, dtype=object))
    if len(data) - start != size:
        raise DataError(f"{path}: {len(data) - start} bytes where {size} belong {shape}. Get it again.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
