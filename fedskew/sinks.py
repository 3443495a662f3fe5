"""Where the numbers of a run can go: TensorBoard, Weights & Biases, MLflow (the extra `track`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

Values = dict[str, float]


class Sink(Protocol):
    """Takes the numbers of one run, round after round; rounds count from 1, as people count."""

    def log(self, round: int, values: Values) -> None: ...

    def close(self) -> None: ...


class Begin(NamedTuple):
    """The run that a sink is opened for."""

    name: str  # of the configuration
    seed: int
    settings: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What the run is called in a list."""
        return f"{self.name} seed {self.seed}"


class TensorBoard:
    """Event files below a folder, a subfolder for every run."""

    def __init__(self, run: Begin, where: str) -> None:
        package = import_module("torch.utils.tensorboard")
        self._writer = package.SummaryWriter(str(Path(where) / run.name / str(run.seed)))
        self._writer.add_text("settings", f"```\n{json.dumps(run.settings, indent=1)}\n```")

    def log(self, round: int, values: Values) -> None:
        for key, value in values.items():
            self._writer.add_scalar(_grouped(key), value, round)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run of a project; offline unless WANDB_MODE says otherwise."""

    def __init__(self, run: Begin, where: str) -> None:
        self._run = import_module("wandb").init(
            project=where,
            name=run.title,
            group=run.name,
            config=dict(run.settings),
            mode=os.environ.get("WANDB_MODE", "offline"),
            reinit="create_new",  # several runs go on beside each other
        )

    def log(self, round: int, values: Values) -> None:
        self._run.log({_grouped(key): value for key, value in values.items()}, step=round)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """A run of the experiment 'fedskew' in a store: a folder, or an address like http://localhost:5000."""

    def __init__(self, run: Begin, where: str) -> None:
        package, address = import_module("mlflow"), where
        if "://" not in where:
            address = Path(where).resolve().as_uri()
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder is what was asked for
        self._client, self._metric = package.MlflowClient(address), package.entities.Metric
        found = self._client.get_experiment_by_name("fedskew")
        home = found.experiment_id if found else self._client.create_experiment("fedskew")
        self._run = self._client.create_run(home, run_name=run.title).info.run_id
        for key, value in _flat(run.settings):
            self._client.log_param(self._run, key, value)

    def log(self, round: int, values: Values) -> None:
        made = [self._metric(key, value, timestamp=0, step=round) for key, value in values.items()]
        self._client.log_batch(self._run, metrics=made)

    def close(self) -> None:
        self._client.set_terminated(self._run)


KINDS: dict[str, Callable[[Begin, str], Sink]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


def _grouped(key: str) -> str:
    return key.replace(".", "/", 1)


def _flat(settings: Mapping[str, Any]) -> list[tuple[str, object]]:
    out: list[tuple[str, object]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            out += [(f"{name}.{key}", inner) for key, inner in value.items()]
        else:
            out.append((name, value))
    return out
