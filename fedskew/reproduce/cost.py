"""How long a cell takes on this machine, from timing one client of it; remembered in the user's cache."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedskew.config import Config
from fedskew.data.atomic import write_text
from fedskew.data.folder import user_cache
from fedskew.reproduce import code
from fedskew.reproduce.cells import Cell

if TYPE_CHECKING:
    from fedskew.experiment import Session

SHORT = 2.0  # seconds below which a measurement is repeated, since its first time also warms up
TRIED = 500  # test examples
PIECES = 50  # of the data of a single client


class Timing(NamedTuple):
    """Seconds on one core, and the sizes that turn them into those of a round."""

    example: float  # to train on one example once
    test: float  # to evaluate one model on one example
    train_size: int
    test_size: int
    clients: int


def key(config: Config) -> str:
    """Configurations with the same key take equally long for an example."""
    table = config.model_dump(mode="json")
    kept = {name: table[name] for name in ("data", "model", "method", "dtype")}
    kept |= {
        "clients": table["split"].get("clients"),
        "batch": config.train.batch,
        "epochs": config.train.epochs,
    }
    kept |= {"also": config.evaluate.also, "engine": table["engine"], "speed": code.speed()}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def known(cell: Cell) -> Timing | None:
    """The remembered timing of a cell like this one."""
    found = _remembered().get(key(cell.config))
    if found is None:
        return None
    example, test, *sizes = found
    return Timing(example, test, *(int(size) for size in sizes))


def measured(cell: Cell) -> Timing:
    """The remembered timing, or a new one, which takes seconds."""
    found = known(cell)
    if found is None:
        found = _measure(cell.seeded(0))
        content = {**_remembered(), key(cell.config): found}
        write_text(_file(), json.dumps(content))
    return found


def seconds(config: Config, timing: Timing) -> float:
    """What a whole run takes on one core."""
    train, rounds = config.train, config.train.rounds
    present = max(1, int(train.participation * timing.clients + 0.5)) / timing.clients
    training = rounds * present * timing.train_size * train.epochs * timing.example
    exams = timing.test * timing.test_size
    return training + exams * (
        _overall(config) + (1 + len(config.evaluate.also)) * _clients(config, timing, present)
    )


def _overall(config: Config) -> int:
    """How often the server's model is evaluated."""
    rounds, every = config.train.rounds, config.evaluate.every
    return sum((number + 1) % every == 0 or number >= rounds - 10 for number in range(rounds))


def _clients(config: Config, timing: Timing, present: float) -> float:
    """How many clients' models are evaluated: those that trained since the last time."""
    if not config.evaluate.personal:
        return 0.0
    total, since = 0.0, 0
    for number in range(config.train.rounds):
        since += 1
        if (number + 1) % config.evaluate.personal == 0 or number >= config.train.rounds - 10:
            total += timing.clients * (1 - (1 - present) ** since)
            since = 0
    return total


def _file() -> Path:
    return user_cache() / "costs.json"


def _remembered() -> dict[str, list[float]]:
    try:
        found: dict[str, list[float]] = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _measure(config: Config) -> Timing:
    import torch

    from fedskew import build
    from fedskew.data.partition import IID

    experiment = build.experiment(config)
    short = replace(experiment, training=replace(experiment.training, epochs=min(2, config.train.epochs)))
    alone = config.split.options.get("clients") == 1
    if alone:
        short = replace(short, split=IID(clients=PIECES))  # one of these has enough to be timed
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with short.session(config.seeds[0]) as session:
            found = _time(session)
        return found._replace(clients=1) if alone else found
    finally:
        torch.set_num_threads(threads)


def _time(session: Session) -> Timing:
    feed = session.feed
    algorithm, data = feed.algorithm, feed.federation.data
    server = algorithm.init()
    by_size = sorted(feed.federation.trainers, key=lambda k: len(feed.federation.partition.train[k]))
    client = by_size[len(by_size) // 2]
    local = _clock(lambda: session.engine.exchange(algorithm.message(server, 0), [client], 0))
    model = algorithm.overall(server)
    trial = _clock(lambda: algorithm.predict(model, feed.x[data.test[:TRIED]]))
    size = len(feed.federation.partition.train[client]) * feed.training.epochs
    return Timing(
        *(local / size, trial / min(TRIED, len(data.test))),
        *(sum(map(len, feed.federation.partition.train)), len(data.test), len(by_size)),
    )


def _clock(work: Callable[[], object]) -> float:
    """Seconds of processor time, which other programs on the machine do not change."""
    start = time.process_time()
    work()
    first = time.process_time() - start
    if first >= SHORT:
        return first
    start = time.process_time()
    work()
    return time.process_time() - start
