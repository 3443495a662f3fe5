"""Brings a run of a local deployment to its end, whatever dies on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from fedskew import failures
from fedskew.errors import DivergedError, FedskewError
from fedskew.flower.deployment import Deployment, DeploymentError
from fedskew.flower.processes import gone
from fedskew.store import layout
from fedskew.store.lock import Owner
from fedskew.store.reader import RunReader

BEGIN = 180.0  # seconds from submission until the ServerApp has taken the run
ATTEMPTS = 5  # submissions without a new round in between
Tell = Callable[[str], None]


def finish(deployment: Deployment, app: Path, place: Path, tell: Tell, poll: float = 0.5) -> None:
    """Submits the run, starts again what dies, and submits it again until its last round is committed."""
    rounds = int(RunReader(place).config()["train"]["rounds"])
    tries, best = 0, _done(place)
    while _done(place) < rounds:
        tries = 1 if _done(place) > best else tries + 1
        best = _done(place)
        if tries > ATTEMPTS:
            raise DeploymentError(
                f"the run stopped {ATTEMPTS} times at round {best}; see {deployment.log('superlink')}."
            )
        submitted = time.time()
        try:
            deployment.submit(app, place)
        except DeploymentError as error:
            tell(f"{error} Once more.")
            submitted -= BEGIN  # nothing to wait for, but what has died must be started again
        _accompany(deployment, place, rounds, submitted, tell, poll)
        _refuse_failure(place)


def _accompany(
    deployment: Deployment, place: Path, rounds: int, submitted: float, tell: Tell, poll: float
) -> None:
    """Until the run is complete, or nobody works on it any more."""
    taken, told = False, _done(place)
    while True:
        for name in deployment.revive():
            tell(f"{name} had ended and is started again")
        if told < _done(place):
            told = _done(place)
            tell(f"round {told} of {rounds}")
        owned = _owned(place)
        taken = taken or owned
        if not owned and (taken or time.time() > submitted + BEGIN or told == rounds):
            return
        time.sleep(poll)


def _done(place: Path) -> int:
    """Rounds that are committed."""
    last = RunReader(place).round()
    return 0 if last is None else last + 1


def _owned(place: Path) -> bool:
    """Whether a living process holds the run; of one that was killed Flower may keep the remains for long."""
    try:
        owner = Owner(**json.loads((place / layout.LOCK).read_bytes()))
        return owner.alive() and not gone(owner.pid)
    except (OSError, ValueError, TypeError):
        return False


def _refuse_failure(place: Path) -> None:
    if why := failures.why(place):
        kind = DivergedError if failures.has_diverged(RunReader(place)) else FedskewError
        raise kind(f"{place}: {why}")
