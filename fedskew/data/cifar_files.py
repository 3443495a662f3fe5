"""The published forms of CIFAR-10 and CIFAR-100: files, hashes, class names, and where they are found."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedskew.data.archive import entries
from fedskew.data.folder import File, Folder
from fedskew.data.safe import read_bytes
from fedskew.errors import DataError

LARGEST = 1 << 28  # bytes of one file; CIFAR-100's training file has 155 million
URL = "https://www.cs.toronto.edu/~kriz/"


class Layout(NamedTuple):
    """One published form: its folder and archive, its files with their hashes, and where the label is."""

    folder: str
    archive: File
    train: tuple[File, ...]
    test: File
    labels: bytes | int  # key of the label list of a pickle, or number of label bytes before an image


TEN_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"
HUNDRED_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel
can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion
lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table
tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman
worm
"""
OBJECTS, THINGS = tuple(TEN_NAMES.split()), tuple(HUNDRED_NAMES.split())

TEN_PYTHON = Layout(
    "cifar-10-batches-py",
    File("cifar-10-python.tar.gz", f"{URL}cifar-10-python.tar.gz", md5="c58f30108f718f92721af3b95e74349a"),
    (
        File("data_batch_1", md5="c99cafc152244af753f735de768cd75f"),
        File("data_batch_2", md5="d4bba439e000b95fd0a9bffe97cbabec"),
        File("data_batch_3", md5="54ebc095f3ab1f0389bbae665268c751"),
        File("data_batch_4", md5="634d18415352ddfa80567beed471001a"),
        File("data_batch_5", md5="482c414d41f54cd18b22e5b47cb7c3cb"),
    ),
    File("test_batch", md5="40351d587109b95175f43aff81a1287e"),
    b"labels",
)
TEN_BINARY = Layout(
    "cifar-10-batches-bin",
    File("cifar-10-binary.tar.gz", f"{URL}cifar-10-binary.tar.gz", md5="c32a1d4ab5d03f1284b67883e8d87530"),
    tuple(File(f"data_batch_{k}.bin", size=30_730_000) for k in range(1, 6)),
    File("test_batch.bin", size=30_730_000),
    1,
)
HUNDRED_PYTHON = Layout(
    "cifar-100-python",
    File("cifar-100-python.tar.gz", f"{URL}cifar-100-python.tar.gz", md5="eb9058c3a382ffc7106e4002c42a8d85"),
    (File("train", md5="16019d7e3df5f24257cddd939b257f8d"),),
    File("test", md5="f0ef6b0ae62326f3e7ffdfab6717acfc"),
    b"fine_labels",
)
HUNDRED_BINARY = Layout(
    "cifar-100-binary",
    File("cifar-100-binary.tar.gz", f"{URL}cifar-100-binary.tar.gz", md5="03b5dce01913d631647c71ecec9e9cb8"),
    (File("train.bin", size=153_700_000),),
    File("test.bin", size=30_740_000),
    2,
)
TEN = (TEN_PYTHON, TEN_BINARY)
HUNDRED = (HUNDRED_PYTHON, HUNDRED_BINARY)


def find(forms: Sequence[Layout], name: str, folder: Folder) -> tuple[Path, ...]:
    """The files of the first form that is there, else an archive, else the download of the last form."""
    for form in forms:
        below = [form.folder, f"{name}/{form.folder}"]
        parts = [*form.train, form.test]
        here = [file for file in parts if any((at / file.name).is_file() for at in folder.places(below))]
        if here and (missing := [file.name for file in parts if file not in here]):
            raise DataError(
                f"{form.folder}: no {', '.join(missing)} beside {', '.join(file.name for file in here)}. "
                f"Get {form.archive.url}{', or ask for a part: batches = [1, 2]' if len(parts) > 2 else ''}."
            )
        if here:
            return tuple(folder.find(file, below) for file in parts)
    packed = [
        form for form in forms if any((at / form.archive.name).is_file() for at in folder.places([name]))
    ]
    return (folder.find((packed or forms)[-1].archive, [name]),)


class Piece(NamedTuple):
    """The bytes of one file of a layout and where they come from."""

    where: Path
    data: bytes


def contents(forms: Sequence[Layout], files: tuple[Path, ...]) -> tuple[Layout, list[Piece]]:
    """The layout that `files` have, and its training files and test file in this order."""
    form = next(form for form in forms if files[-1].name in (form.archive.name, form.test.name))
    if files[-1].name == form.test.name:
        return form, [Piece(path, read_bytes(path, LARGEST)) for path in files]
    inside = [f"{form.folder}/{file.name}" for file in (*form.train, form.test)]
    held = {entry.name: entry.data for entry in entries(files[0], inside.__contains__, LARGEST)}
    if absent := [name for name in inside if name not in held]:
        raise DataError(f"{files[0]}: does not hold {', '.join(absent)}. Get it again.")
    return form, [Piece(files[0] / name, held[name]) for name in inside]
