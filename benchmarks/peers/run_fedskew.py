"""A workload on fedskew, as `fedskew run` would run it: the engine is chosen by measurement."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from networks import build
from setting import Setting, load, report

from fedskew import methods
from fedskew.algorithm import Algorithm
from fedskew.data.dataset import Dataset
from fedskew.data.federation import Federation, Training
from fedskew.data.partition import Partition
from fedskew.engines.choose import Choice, engine, resolve
from fedskew.engines.feed import Feed
from fedskew.models.module import factory
from fedskew.step import SGD


def feed(setting: Setting) -> Feed:
    """The setting as fedskew knows it."""
    nothing = np.array([], dtype=np.int64)
    places, names = np.arange(len(setting.y)), tuple(map(str, range(10)))
    x, y = torch.tensor(setting.x), torch.tensor(setting.y)
    data = Dataset("race", x, y, places, nothing, names)
    parts = tuple(own.astype(np.int64) for own in setting.clients)
    federation = Federation(data, Partition(parts, tuple(nothing for _ in parts)))
    bound = Algorithm(
        methods.fedavg,
        factory(lambda _: build(setting.network, setting.start))(10),
        SGD(setting.lr, setting.momentum, setting.decay),
        len(parts),
        keep_trained=False,
    )
    return Feed.of(bound, federation, Training(setting.epochs, setting.batch))


def main(folder: Path) -> None:
    """All rounds."""
    setting = load(folder)
    world = feed(setting)
    bound = world.algorithm
    machine = engine(resolve(Choice(workers=setting.processes), bound, world), bound, world)
    server, seconds = bound.init(), []
    for number, drawn in enumerate(setting.participants):
        start = time.perf_counter()
        replies, cohort = machine.exchange(bound.message(server, number), drawn, number)
        assert replies is not None
        server = bound.step(server, replies, cohort)
        seconds.append(time.perf_counter() - start)
    machine.close()
    passes = [setting.passes(drawn) for drawn in setting.participants]
    report(folder, seconds, passes, [server["shared"][name].numpy() for name in bound.initial])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
