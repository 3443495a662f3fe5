"""Prepared data: tensors on disk, keyed by their sources' hashes and the options, mapped into memory."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedskew.data.atomic import write_with
from fedskew.data.dataset import Dataset

if TYPE_CHECKING:
    from fedskew.data.folder import Folder

VERSION = 2  # raise it when a reader changes what it returns


def load(what: str, files: tuple[Path, ...], folder: "Folder", read: Callable[[], Dataset]) -> Dataset:
    """The dataset prepared earlier from these files, else the one `read` returns, kept for the next time."""
    manifest = describe(what, files, folder)
    path = folder.cache / "prepared" / f"{key(manifest)}.safetensors"
    found = restore(path, manifest)
    if found is not None:
        return found
    data = read()
    return (store(path, manifest, data) and restore(path, manifest)) or data


def describe(what: str, files: tuple[Path, ...], folder: "Folder") -> str:
    """The manifest: the options, and every source file by its place among the others and its SHA-256, as JSON."""
    places = [path.absolute() for path in files]  # some may be named from here and some from the root
    top = os.path.commonpath([place.parent for place in places])
    sources = [[place.relative_to(top).as_posix(), folder.digest(place, "sha256")] for place in places]
    return json.dumps({"version": VERSION, "options": what, "sources": sources}, sort_keys=True)


def key(manifest: str) -> str:
    """The name under which a manifest's data is kept."""
    return hashlib.sha256(manifest.encode()).hexdigest()[:32]


def store(path: Path, manifest: str, data: Dataset) -> bool:
    """Writes `data` beside its manifest in one step; False if the cache cannot be written."""
    tensors: dict[str, Tensor] = {"x": data.x.contiguous(), "y": data.y}
    tensors |= {"train": torch.from_numpy(data.train), "test": torch.from_numpy(data.test)}
    if data.owners is not None:
        tensors["owners"] = torch.from_numpy(data.owners)
    words = {"manifest": manifest, "name": data.name, "classes": json.dumps(data.classes)}
    words["clients"] = json.dumps(data.clients)

    def fill(part: Path) -> None:
        try:
            save_file(tensors, part, metadata=words)
        except SafetensorError as error:  # its way to say that the disk is full
            raise OSError(str(error)) from error

    return write_with(path, fill)


def restore(path: Path, manifest: str) -> Dataset | None:
    """The data kept at `path`, mapped into memory; None if there is none or it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            words = file.metadata() or {}
            if words.get("manifest") != manifest:
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    owners = tensors.get("owners")
    if owners is not None and "clients" not in words:
        return None  # kept before owners had names
    return Dataset(
        name=words["name"],
        x=tensors["x"],
        y=tensors["y"],
        train=tensors["train"].numpy(),
        test=tensors["test"].numpy(),
        classes=tuple(json.loads(words["classes"])),
        owners=None if owners is None else owners.numpy(),
        clients=tuple(json.loads(words.get("clients", "[]"))),
    )
