"""Reading files one does not trust: into memory, never onto disk, and never more than expected."""

import gzip
import io
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.errors import DataError

LARGEST_ARRAY = 1 << 33  # bytes
PLAUSIBLE = 1 << 28  # a member larger than this must not be packed more than RATIO to one
RATIO = 200
LARGEST_SIDE = 8192  # pixels
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")


def read_bytes(path: Path, limit: int) -> bytes:
    """The bytes of a plain file of at most `limit` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    return within(data, limit, path)


def gunzip(path: Path, limit: int) -> bytes:
    """The content of a .gz file, refused when it is damaged or has more than `limit` bytes."""
    try:
        with gzip.open(path) as file:
            data = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: is no whole gzip file ({error}). Get it again.") from error
    return within(data, limit, path)


def within(data: bytes, limit: int, where: object) -> bytes:
    """`data`, refused when it has more than `limit` bytes."""
    if len(data) > limit:
        raise DataError(f"{where}: has more than the {limit:,} bytes allowed for it, so it was not read.")
    return data


def npz(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Those of the named arrays that a .npz file holds; arrays of Python objects are refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            held = {info.filename: info for info in archive.infolist()}
            found = [name for name in names if f"{name}.npy" in held]
            return {name: _npy(archive, held[f"{name}.npy"], path) for name in found}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(f"{path}: is no .npz file of plain arrays ({error}).") from error


def _npy(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> NDArray[Any]:
    """One array, once its header agrees with the size of the member."""
    check_member(info, path)
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = header(member)
        if dtype.hasobject:
            raise DataError(f"{path}: {info.filename} holds Python objects, which are never loaded.")
        if int(np.prod(shape, dtype=object)) * dtype.itemsize > info.file_size:
            raise DataError(f"{path}: {info.filename} promises more numbers than it holds.")
    with archive.open(info) as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def check_member(info: zipfile.ZipInfo, path: Path, limit: int = LARGEST_ARRAY) -> None:
    """Refuses a member of a .zip that is too large, a bomb, or packed in a way that reads it at once."""
    size, packed = info.file_size, info.compress_size
    if size > limit or (size > PLAUSIBLE and size > RATIO * packed):
        raise DataError(
            f"{path}: {info.filename} unpacks from {packed:,} to {size:,} bytes, so it was not read."
        )
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{path}: {info.filename} is neither stored nor deflated. Pack the files again.")


def _eight_bits(picture: Any) -> Any:
    """An image of one byte a channel, what is transparent on white; Pillow alone would clip and blacken."""
    from PIL import Image

    if picture.mode.startswith("I"):
        return Image.fromarray((np.asarray(picture).astype(np.uint32) // 257).astype(np.uint8))
    if picture.has_transparency_data:
        shown = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown)
    return picture


def image(data: bytes, where: object, side: int, colour: bool, resize: bool) -> NDArray[np.uint8]:
    """An image file as [channels, side, side] bytes; cropped and scaled if `resize`, else it must fit."""
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(io.BytesIO(data), formats=FORMATS)
        if max(picture.size) > LARGEST_SIDE or (not resize and picture.size != (side, side)):
            raise DataError(f"{where}: an image of {picture.size} pixels where {(side, side)} belong.")
        plain = _eight_bits(picture).convert("RGB" if colour else "L")
        pixels = np.asarray(ImageOps.fit(plain, (side, side), Image.Resampling.BILINEAR))
    except (OSError, ValueError, SyntaxError, EOFError, zlib.error, Image.DecompressionBombWarning) as error:
        raise DataError(f"{where}: is no whole PNG, JPEG, BMP or WebP image ({error}).") from error
    except (Image.DecompressionBombError, MemoryError) as error:
        raise DataError(f"{where}: an image too large to be read.") from error
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) if colour else pixels[None])
