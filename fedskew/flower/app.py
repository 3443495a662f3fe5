"""A Flower app of an experiment, written as files: what `flwr run` packs and sends to the nodes."""

from __future__ import annotations

import re
from pathlib import Path

from fedskew.config import Config
from fedskew.errors import ConfigError, DiskError

PACKAGE = "fedskew_app"
EXPERIMENT = "experiment.toml"

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = "{method} with fedskew on Flower"
license = {{ file = "LICENSE" }}
requires-python = ">=3.11"
# Installed beforehand at every node: installation at run time is off.
dependencies = ["fedskew[flower]", "flwr>=1.41.0,<1.42"]

[tool.hatch.build.targets.wheel]
packages = ["{package}"]

[tool.flwr.app]
publisher = "fedskew"
fab-format-version = 1
flwr-version-target = "1.41.0"

[tool.flwr.app.components]
serverapp = "{package}.server:app"
clientapp = "{package}.client:app"

[tool.flwr.app.config]
run-dir = "{run_dir}"  # where the server keeps the run; a path on the server's machine
resume = false
threads = 1            # of torch; the same number gives the same bits
"""

LICENSE = """\
Licensed under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0
Put your own licence here if your application has another one.
"""

CLIENT = '''\
"""What runs at a client."""

from pathlib import Path

from fedskew.flower.link import client_app
from fedskew.flower.warm import Warm

# The examples are read by a worker that stays between tasks; this process only passes messages on.
app = client_app(Warm(Path(__file__).with_name("experiment.toml"), "fedskew_app.data:federation"))
'''

SERVER = '''\
"""What runs at the server."""

from pathlib import Path

from fedskew.flower.link import server_app
from fedskew.flower.serve import server
from fedskew_app.data import federation

app = server_app(server(Path(__file__).with_name("experiment.toml"), federation))
'''

DATA = '''\
"""Where the examples are: the one file to fill in."""

from fedskew.config import Config
from fedskew.data.federation import Federation
from fedskew.flower.site import own, simulated


def federation(config: Config, client: int | None) -> Federation:
    """The examples of one client; where it is None, of the server, which may have a test set of its own."""
    return simulated(config, client)  # the dataset named in experiment.toml, dealt to all clients: for trials

    # Real clients read what lies on their own disk; nothing of it leaves them. For example:
    #
    # import numpy as np
    # CLIENTS = 4
    # CLASSES = ("healthy", "ill")                          # the same everywhere, in this order
    # SHAPE = (1, 28, 28)
    # nothing = np.zeros((0, *SHAPE), np.float32), np.zeros(0, np.int64)
    # if client is None:
    #     return own(None, CLIENTS, CLASSES, nothing, nothing)
    # with np.load("/data/examples.npz", allow_pickle=False) as here:
    #     train, test = (here["x"], here["y"]), (here["x_test"], here["y_test"])
    # return own(client, CLIENTS, CLASSES, train, test)


__all__ = ["federation", "own"]
'''


def write(folder: Path, config: Config) -> None:
    """Writes an app that runs as it is, with the dataset of the configuration."""
    if folder.is_file() or (folder.exists() and any(folder.iterdir())):
        raise ConfigError(f"{folder} is not an empty folder. Choose another folder for the app.")
    name = "fedskew-" + re.sub(r"[^a-z0-9]+", "-", config.name.lower()).strip("-")
    words = {"name": name, "package": PACKAGE, "method": config.method.preset}
    files = {
        "pyproject.toml": PYPROJECT.format(**words, run_dir=f"runs/{config.name}/flower"),
        "LICENSE": LICENSE,
        f"{PACKAGE}/__init__.py": f'"""{config.method.preset} with fedskew on Flower."""\n',
        f"{PACKAGE}/client.py": CLIENT,
        f"{PACKAGE}/server.py": SERVER,
        f"{PACKAGE}/data.py": DATA,
        f"{PACKAGE}/{EXPERIMENT}": config.toml(),
    }
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DiskError(f"{folder}: cannot be written: {error.strerror}.") from error
