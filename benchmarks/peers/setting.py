"""What every simulator is given and what it hands back; needs numpy alone, so that any environment can read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Setting(NamedTuple):
    """One workload: data, owners, who takes part when, the initial network and how it is trained."""

    x: Array  # [N, channels, height, width]
    y: NDArray[np.int64]
    clients: list[NDArray[np.int64]]
    participants: list[list[int]]  # of every round; the first one warms up
    start: list[Array]  # in the order and layout of torch
    network: str
    epochs: int
    batch: int
    lr: float
    momentum: float
    decay: float
    processes: int

    def passes(self, clients: list[int]) -> int:
        """Examples that go through the network in a round of these clients."""
        return self.epochs * sum(len(self.clients[k]) for k in clients)


def save(folder: Path, setting: Setting) -> None:
    """Writes a setting into a folder."""
    np.save(folder / "x.npy", setting.x)
    np.save(folder / "y.npy", setting.y)
    np.savez(folder / "clients.npz", *setting.clients)
    np.savez(folder / "start.npz", *setting.start)
    rest = {name: value for name, value in setting._asdict().items() if name not in _ARRAYS}
    (folder / "setting.json").write_text(json.dumps(rest), encoding="utf-8")


def load(folder: Path) -> Setting:
    """The setting in a folder."""
    rest = json.loads((folder / "setting.json").read_text(encoding="utf-8"))
    return Setting(
        np.load(folder / "x.npy", mmap_mode="r"),
        np.load(folder / "y.npy"),
        arrays(folder / "clients.npz"),
        start=arrays(folder / "start.npz"),
        **rest,
    )


def arrays(path: Path) -> list[Array]:
    """The arrays of an .npz file, in order."""
    with np.load(path) as found:
        return [found[f"arr_{i}"] for i in range(len(found.files))]


def report(folder: Path, seconds: list[float], passes: list[int], end: list[Array]) -> None:
    """Leaves a simulator's times, work and final network (torch's layout) in the folder."""
    np.savez(folder / "end.npz", *end)
    (folder / "times.json").write_text(json.dumps({"seconds": seconds, "passes": passes}), encoding="utf-8")


_ARRAYS = ("x", "y", "clients", "start")
