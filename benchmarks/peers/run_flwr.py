"""A workload on Flower's simulation engine (Ray), one process a core."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flwr.simulation import run_simulation
from setting import load


def main(folder: Path) -> None:
    """All rounds."""
    os.environ["RACE"] = str(folder)
    from flower_apps import client, server

    setting = load(folder)
    config = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": setting.processes},
    }
    run_simulation(server, client, num_supernodes=len(setting.clients), backend_config=config)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
