"""The two apps of Flower: a ClientApp with a DataLoader, a ServerApp with the FedAvg strategy."""

from __future__ import annotations

import os
import time
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from networks import build, fill, weights
from setting import Setting, load, report
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

FOLDER = Path(os.environ["RACE"])  # Ray's workers inherit it
client = ClientApp()
server = ServerApp()


@cache
def world() -> tuple[Setting, TensorDataset]:
    """Setting and data, once in every process."""
    setting = load(FOLDER)
    torch.set_num_threads(1)
    return setting, TensorDataset(torch.tensor(setting.x), torch.tensor(setting.y))


@client.train()
def train(message: Message, context: Context) -> Message:
    """One client's round."""
    setting, data = world()
    own = setting.clients[int(context.node_config["partition-id"])]
    model = build(setting.network, setting.start)
    fill(model, message.content["arrays"].to_numpy_ndarrays())
    optimizer = torch.optim.SGD(
        model.parameters(), lr=setting.lr, momentum=setting.momentum, weight_decay=setting.decay
    )
    loader = DataLoader(Subset(data, own.tolist()), batch_size=setting.batch, shuffle=True)
    for _ in range(setting.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    content = RecordDict(
        {"arrays": ArrayRecord(weights(model)), "metrics": MetricRecord({"num-examples": len(own)})}
    )
    return Message(content=content, reply_to=message)


@server.main()
def serve(grid: Grid, context: Context) -> None:
    """All rounds; a clock at the end of each."""
    setting, _ = world()
    clock: list[float] = []
    passes: list[int] = []

    def count(replies: list[RecordDict], key: str) -> MetricRecord:
        passes.append(setting.epochs * sum(int(reply["metrics"][key]) for reply in replies))
        return MetricRecord({})

    def look(round: int, arrays: ArrayRecord) -> MetricRecord:
        clock.append(time.perf_counter())
        return MetricRecord({})

    share = len(setting.participants[0]) / len(setting.clients)
    strategy = FedAvg(
        fraction_train=share,
        fraction_evaluate=0.0,
        min_available_nodes=len(setting.clients),
        train_metrics_aggr_fn=count,
    )
    rounds = len(setting.participants)
    result = strategy.start(grid, ArrayRecord(setting.start), rounds, evaluate_fn=look)
    seconds = [later - earlier for earlier, later in pairwise(clock)]
    report(FOLDER, seconds, passes, result.arrays.to_numpy_ndarrays())
