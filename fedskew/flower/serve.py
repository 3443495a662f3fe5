"""What runs at the server: the rounds of a run directory, over a post."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from fedskew import build, failures, runs
from fedskew.config import Config
from fedskew.config import load as load_config
from fedskew.data.federation import Federation
from fedskew.engines.engine import Engine
from fedskew.engines.feed import Feed
from fedskew.engines.private import Private
from fedskew.errors import ConfigError, FedskewError, LockedError
from fedskew.experiment import Session
from fedskew.flower.asking import Waits
from fedskew.flower.parcel import Post, Settings
from fedskew.flower.remote import Remote
from fedskew.flower.site import Load
from fedskew.gate import Gate
from fedskew.results import Result
from fedskew.store import environment, layout
from fedskew.store.reader import RunReader
from fedskew.store.run import RunStore

IDENTITY = "flower.json"  # the name under which clients remember this run
PATIENCE = 60.0  # seconds to wait for a server that was killed to let go of the run
log = logging.getLogger("fedskew")


def server(config: Path, load: Load) -> Callable[[Post, Settings], None]:
    """What a server does with a post; the settings of the run say where the run is kept."""

    def main(post: Post, settings: Settings) -> None:
        torch.set_num_threads(int(settings.get("threads", 1)))
        place = Path(str(settings["run-dir"])).expanduser()
        serve(load_config(config), place, load, post, bool(settings.get("resume", False)))

    return main


def begin(config: Config, place: Path, load: Load) -> None:
    """Makes the run's directory, and nothing if it cannot run."""
    federation = load(config, None)
    _check(config, federation)
    identity = json.dumps({"run": uuid.uuid4().hex}).encode() + b"\n"
    files = {runs.CENSUS: runs.census(federation), IDENTITY: identity}
    resolved = config.changed({"seeds": [config.seeds[0]], "engine.name": "serial"})
    RunStore.create(place, resolved.toml(), environment.describe(), files).close()


def _check(config: Config, federation: Federation) -> None:
    if config.engine.device != "cpu":
        raise ConfigError(
            f"engine.device = '{config.engine.device}': deployed clients train on processors. Leave it out."
        )
    asked = len(federation.participants(config.seeds[0], 0, _participation(config)))
    if config.gate.enabled is not False and config.gate.minimum > asked:
        raise ConfigError(f"gate.minimum = {config.gate.minimum}: a round asks no more than {asked} clients.")


def _participation(config: Config) -> float:
    """Of all that are asked, those to spare included."""
    return min(1.0, config.train.participation * (1 + config.flower.over_selection))


def serve(config: Config, place: Path, load: Load, post: Post, resume: bool) -> Result:
    """Runs to the last round, from the beginning or from where a run stopped."""
    if not layout.is_run(place):
        begin(config, place, load)
    elif not resume:
        raise ConfigError(f"{place} already holds a run. Continue it with `fedskew flower run --resume`.")
    else:
        runs.refuse_other(config, place)  # clients have the settings of the app that was just sent
    try:
        return _carry_on(place, load, post)
    except FedskewError as error:
        failures.note_failure(place, error)
        raise


def _carry_on(place: Path, load: Load, post: Post) -> Result:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return runs.carry_on(place, _tell, lambda found, where: session(found, where, load, post))
        except LockedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def session(config: Config, place: Path, load: Load, post: Post) -> Session:
    """The experiment with its clients at the nodes of the post."""
    experiment, federation = build.experiment(config), load(config, None)
    algorithm = experiment.algorithm(federation, config.seeds[0])
    feed = Feed.of(algorithm, federation, experiment.training)
    run = json.loads(RunReader(place).file(IDENTITY))["run"]
    gate = (
        None if config.gate.enabled is False else Gate.of(algorithm, feed.x.shape[1:], build.limits(config))
    )
    waits = Waits(config.flower.timeout, config.flower.resend)
    needed = len(federation.participants(config.seeds[0], 0, experiment.participation))
    engine: Engine = Remote(feed, post, run, waits, gate, needed)
    if experiment.privacy and experiment.privacy.kind == "central":  # else clients have added their noise
        engine = Private(engine, algorithm, experiment.privacy)
    return Session(replace(experiment, participation=_participation(config)), feed, engine)


def _tell(place: Path, done: int, rounds: int) -> None:
    log.info("%s: round %d of %d is committed", place, done, rounds)
