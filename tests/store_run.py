"""A run whose training is a few sums, for the tests of the store."""

import math
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch

from fedskew.store import layout
from fedskew.store.run import RunStore

LAST = 2  # rounds 0, 1, 2
CLIENTS = 5
CONFIG = 'method = "fedavg"\n'
FILES = {"partition.bin": bytes(range(200))}


def begin(folder: Path) -> RunStore:
    return RunStore.create(folder, CONFIG, {"python": "3", "threads": 1}, FILES)


def train(store: RunStore, last: int = LAST, committed: Callable[[int], None] = lambda round: None) -> None:
    """A stand-in for training whose every number depends on all the rounds before."""
    found, kept = store.load(), store.kept()
    server = found.server if found else {"shared": {"w": torch.ones(4), "b": torch.tensor(0.5)}, "clock": {}}
    for round in range(found.round + 1 if found else 0, last + 1):
        ids = sorted({round % CLIENTS, (2 * round + 1) % CLIENTS})
        for client in ids:
            old = kept.get(client, {"private": {"w": torch.full((3,), float(client))}})
            kept[client] = {"private": {"w": old["private"]["w"] * 1.1 + server["shared"]["b"]}}
        pull = sum(kept[client]["private"]["w"].sum() for client in ids)
        shared = {"w": server["shared"]["w"] * 0.9 + pull, "b": server["shared"]["b"] + 1 / (round + 1)}
        server = {"shared": shared, "clock": {}}
        store.log_clients({"round": round, "client": client} for client in ids)
        store.log_metrics({"round": round, "loss": float(shared["w"].sum()), "gap": math.nan})
        store.log_event("round", {"round": round, "seconds": time.perf_counter()})
        store.save(round, server, kept.changed)
        kept.settle()
        committed(round)


def result(folder: Path) -> dict[str, bytes]:
    """Every byte of a run but those that tell of this machine."""
    ours = {layout.EVENTS, layout.LOCK}
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in ours]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def finish(folder: Path) -> RunStore:
    """Resumes a run, or begins it if its creation was cut short, and ends it."""
    with RunStore.open(folder) if layout.is_run(folder) else begin(folder) as store:
        train(store)
        return store


def mutate(data: bytes, rng: random.Random) -> bytes:
    """The bytes after one random change: more, fewer or others."""
    at = rng.randrange(len(data) + 1)
    noise = rng.randbytes(rng.randint(1, 8))
    ways = [
        data[:at] + noise + data[at:],
        data[:at] + noise + data[at + len(noise) :],
        data[: rng.randrange(max(1, len(data)))],
        b"",
        data + noise,
        data[:at] + bytes(len(data) - at),
        data[:at] + data[at + 1 :],
        data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        if at < len(data)
        else data[1:],
    ]
    return rng.choice(ways)
