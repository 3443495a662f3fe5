"""Flower's usual client."""

from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Five epochs of SGD, as fedskew's defaults are."""
    torch.set_num_threads(1)
    folder, client = Path(context.run_config["folder"]), context.node_config["partition-id"]
    data = np.load(folder / f"{client}.npz")
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(5):
        for batch in torch.randperm(len(x)).split(32):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    records = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(x)})}
    return Message(RecordDict(records), reply_to=message)
