"""A workload as a careful person writes it in PyTorch: a process a core, one thread each, no framework."""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path

import numpy as np
import torch
from networks import build, fill, weights
from setting import Array, Setting, load, report
from torch import nn


class Worker:
    """What a process of the pool holds: made once, before it is forked."""

    setting: Setting
    x: torch.Tensor
    y: torch.Tensor
    model: nn.Module


def train(order: tuple[list[Array], int, int]) -> list[Array]:
    """One client's round."""
    start, client, seed = order
    setting, model = Worker.setting, Worker.model
    torch.set_num_threads(1)
    fill(model, start)
    optimizer = torch.optim.SGD(
        model.parameters(), setting.lr, momentum=setting.momentum, weight_decay=setting.decay
    )
    own, random = torch.from_numpy(setting.clients[client]), torch.Generator().manual_seed(seed)
    for _ in range(setting.epochs):
        for chosen in own[torch.randperm(len(own), generator=random)].split(setting.batch):
            optimizer.zero_grad()
            out = model(Worker.x.index_select(0, chosen))
            nn.functional.cross_entropy(out, Worker.y.index_select(0, chosen)).backward()
            optimizer.step()
    return weights(model)


def main(folder: Path, channels_last: bool) -> None:
    """All rounds; the largest clients first."""
    setting = Worker.setting = load(folder)
    Worker.x, Worker.y = torch.tensor(setting.x), torch.tensor(setting.y)
    Worker.model = build(setting.network, setting.start)
    if channels_last:
        Worker.x = Worker.x.contiguous(memory_format=torch.channels_last)
        Worker.model = Worker.model.to(memory_format=torch.channels_last)
    params, seconds = setting.start, []
    with multiprocessing.get_context("fork").Pool(setting.processes) as pool:
        for number, drawn in enumerate(setting.participants):
            begin = time.perf_counter()
            ordered = sorted(drawn, key=lambda k: -len(setting.clients[k]))
            found = pool.map(train, [(params, k, number * 10_000 + k) for k in ordered], chunksize=1)
            sizes = np.array([len(setting.clients[k]) for k in ordered], dtype=np.float32)
            shares = sizes / sizes.sum()
            params = [np.tensordot(shares, np.stack(values), 1) for values in zip(*found, strict=True)]
            seconds.append(time.perf_counter() - begin)
    report(folder, seconds, [setting.passes(drawn) for drawn in setting.participants], params)


if __name__ == "__main__":
    main(Path(sys.argv[1]), channels_last="--channels-last" in sys.argv)
