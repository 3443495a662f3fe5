"""A configuration run by a deployment on this machine, from nothing to the last round."""

from __future__ import annotations

from pathlib import Path

from fedskew import runs
from fedskew.config import Config
from fedskew.errors import ConfigError
from fedskew.files import write_text
from fedskew.flower import app, serve
from fedskew.flower.deployment import Deployment
from fedskew.flower.site import simulated
from fedskew.flower.watch import Tell, finish
from fedskew.results import Result
from fedskew.store import layout


def run(config: Config, nodes: int, out: Path, resume: bool, tell: Tell) -> Result:
    """The run's result; its directory is where `fedskew run` would put it, its deployment beside it."""
    place = runs.folder(config, config.seeds[0], out)
    beside = place.with_name(f"{place.name}-flower")
    if layout.is_run(place) and not resume:
        raise ConfigError(f"{place} already holds a run. Continue it with --resume, or change name.")
    clients = simulated(config, None).clients
    if nodes > clients:
        raise ConfigError(
            f"--nodes {nodes}: there are {clients} clients, and a SuperNode serves at least one."
        )
    if len(config.seeds) > 1:
        tell(f"seed {config.seeds[0]} only; another: -s 'seeds=[{config.seeds[1]}]'")
    written = prepare(config, place, beside)
    with Deployment(beside, nodes) as deployment:
        tell(f"starting a SuperLink and {nodes} SuperNodes; logs: {beside / 'logs'}")
        deployment.start()
        finish(deployment, written, place, tell)
    tell(f"finished: {place}")
    return runs.read(place)


def prepare(config: Config, place: Path, beside: Path) -> Path:
    """The run and the app, begun where they are not there; both have the same settings."""
    written = beside / "app"
    if layout.is_run(place):
        runs.refuse_other(config, place)
    else:
        serve.begin(config, place, simulated)
        if written.exists():  # of a run that is gone, whose settings may have been others
            write_text(written / app.PACKAGE / app.EXPERIMENT, config.toml())
    if not written.exists():
        app.write(written, config)
    return written
