"""Runs of a real deployment beside the same runs of the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import torch

from fedskew import runs
from fedskew.config import Config, parse
from fedskew.flower import app, serve
from fedskew.flower.deployment import Deployment
from fedskew.flower.site import simulated
from fedskew.flower.watch import Tell, finish
from fedskew.store import stored
from fedskew.store.reader import RunReader
from fedskew.store.stored import Stored

NODES = 4


class Fingerprint(NamedTuple):
    """The hash of the server's checkpoint, and of what each client remembers."""

    server: str
    clients: dict[int, str]


def config(method: str, rounds: int = 3) -> Config:
    """Digits over ten clients with two labels each; half of them take part in a round."""
    table = {
        "name": method,
        "method": {"preset": method},
        "split": {"scheme": "labels", "clients": 10, "per_client": 2},
        "model": {"name": "mlp", "hidden": [16]},
        "train": {"rounds": rounds, "participation": 0.5, "epochs": 1, "momentum": 0.9},
        "evaluate": {"personal": 0},
        "engine": {"name": "serial", "backend": "autograd"},
    }
    return parse(table, "the test")


def simulated_run(config: Config, out: Path) -> Fingerprint:
    """What the simulator makes of it, with one thread as at a client."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        place = runs.begin(config, 0, out)
        runs.carry_on(place)
    finally:
        torch.set_num_threads(threads)
    found = _newest(place)
    return Fingerprint(found.manifest.server.sha256, {k: ref.sha256 for k, ref in found.clients.items()})


def deployed_run(deployment: Deployment, config: Config, out: Path, tell: Tell) -> Fingerprint:
    """What the deployment makes of it; clients' states are on the clients' disks."""
    place, written = runs.folder(config, 0, out), out / f"{config.name}-app"
    serve.begin(config, place, simulated)
    app.write(written, config)
    finish(deployment, written, place, tell)
    found = _newest(place)
    run = json.loads(RunReader(place).file(serve.IDENTITY))["run"]
    own = {k: _remembered(deployment.folder / "clients" / run / str(k)) for k in found.clients}
    return Fingerprint(found.manifest.server.sha256, own)


def _newest(place: Path) -> Stored:
    _, run = stored.opening(place)
    found = stored.recover(place, run).latest
    assert found is not None
    return found


def _remembered(folder: Path) -> str:
    """The hash in the name of the newest state in a client's folder."""
    newest = max(folder.glob("round-*.safetensors"))
    return newest.stem.rpartition("-")[2]
