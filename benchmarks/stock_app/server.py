"""Flower's FedAvg."""

from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """All clients in every round; the last model goes to a file."""
    folder = Path(context.run_config["folder"])
    start = {name: torch.from_numpy(value) for name, value in np.load(folder / "start.npz").items()}
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4)
    result = strategy.start(grid, ArrayRecord(start), num_rounds=context.run_config["rounds"])
    np.savez(folder / "part.npz", **{n: v.numpy() for n, v in result.arrays.to_torch_state_dict().items()})
    (folder / "part.npz").rename(folder / "end.npz")
