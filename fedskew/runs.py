"""Runs on disk: begin, carry on to the end from wherever it stopped, read back."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from fedskew import build, naming
from fedskew.config import Config, parse
from fedskew.data import artefact
from fedskew.data.federation import Federation
from fedskew.data.partition import Partition
from fedskew.data.partition.dealing import Indices
from fedskew.data.partition.measure import counts
from fedskew.engines.choose import Choice
from fedskew.errors import ConfigError, DiskError, DivergedError
from fedskew.experiment import Experiment, Session
from fedskew.results import Result
from fedskew.store import environment, layout, stored
from fedskew.store.reader import RunReader
from fedskew.store.run import RunStore
from fedskew.tree import State
from fedskew.values import Cohort

PARTITION = "partition.json"
CENSUS = naming.CENSUS  # names, class names and class counts of all clients: what a report needs of the data
OnRound = Callable[[Path, int, int], None]  # (run, rounds done, rounds in all)
Opened = Callable[[Config, Path], Session]


def folder(config: Config, seed: int, out: Path) -> Path:
    """Where a seed of this configuration is kept."""
    return out / config.name / str(seed)


class Checked(NamedTuple):
    """A run that can be made: everything a resumed run needs, in memory."""

    place: Path
    engine: Choice
    settings: str
    files: dict[str, bytes]

    def begin(self) -> Path:
        """Makes the run's directory."""
        RunStore.create(self.place, self.settings, environment.describe(), self.files).close()
        return self.place


def begin(config: Config, seed: int, out: Path) -> Path:
    """Makes the run's directory, and nothing if it cannot run."""
    return plan(config, seed, out).begin()


def plan(config: Config, seed: int, out: Path) -> Checked:
    """Checks all that can be checked before a run: its settings, its data, its partition, its engine."""
    experiment = build.experiment(config)
    data = experiment.dataset()
    partition = experiment.partition(data, seed)
    packed = _packed(experiment, partition, seed, data.y.numpy())
    engine = experiment.choice(seed, data)
    resolved = config.changed(
        {"seeds": [seed], **{f"engine.{key}": value for key, value in asdict(engine).items()}}
    )
    files = {PARTITION: packed, CENSUS: census(experiment.federation(data, seed))}
    return Checked(folder(config, seed, out), engine, resolved.toml(), files)


def census(federation: Federation) -> bytes:
    """Class names, and names and class counts of every client, as a file."""
    labels, partition = federation.data.y.numpy(), federation.partition
    tested = counts(labels, partition.test, federation.classes)
    content = {
        "classes": list(federation.data.classes),
        "train": federation.counts.tolist(),
        "test": tested.tolist(),
        "novel": list(partition.novel),
        "clients": list(naming.names(federation.data, partition)),
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _packed(experiment: Experiment, partition: Partition, seed: int, labels: Indices) -> bytes:
    if isinstance(experiment.split, Path):
        return experiment.split.read_bytes()
    scheme, own = experiment.split, seed if experiment.split_seed is None else experiment.split_seed
    return artefact.pack(partition, type(scheme).__name__.lower(), vars(scheme), own, labels)[0]


def carry_on(place: Path, on_round: OnRound | None = None, opened: Opened | None = None) -> Result:
    """Trains to the last round, simulated unless `opened` has another engine; a complete run is only read."""
    with RunStore.open(place) as store:
        config = parse(RunReader(place).config(), str(place / layout.CONFIG))
        rounds = config.train.rounds
        if store.round is None or store.round + 1 < rounds:
            with (opened or session)(config, place) as at_work:
                _rounds(store, at_work, config, place, on_round)
    return read(place)


def _rounds(store: RunStore, session: Session, config: Config, place: Path, on_round: OnRound | None) -> None:
    point, kept = store.load(), store.kept()
    start, server = (0, None) if point is None else (point.round + 1, point.server)
    if point is not None:
        check_fits(point.server, session.feed.algorithm.init(), place)
    session.engine.adopt(kept)
    store.log_event(*_opening(start, place))
    clock = time.monotonic()
    try:
        for step in session.rounds(start, server):
            store.log_metrics(step.record)
            store.log_clients([step.clients] if step.clients else [])
            for refusal in step.round.cohort.refused:
                store.log_event("refused", {"round": step.round.number, **refusal._asdict()})
            changed = {client: session.engine.kept[client] for client in step.round.cohort.ids}
            store.save(step.round.number, step.round.server, changed)
            kept.settle()
            store.log_event("round", _timing(step.round.cohort, time.monotonic() - clock))
            clock = time.monotonic()
            if on_round:
                on_round(place, step.round.number + 1, config.train.rounds)
    except DivergedError as error:
        store.log_event("diverged", {"why": str(error)})
        raise
    store.log_event("finished", {"round": config.train.rounds})


def _opening(start: int, place: Path) -> tuple[str, dict[str, object]]:
    """The event that training begins, or goes on, perhaps where the last bits are others."""
    if not start:
        return "started", {"round": start}
    changed = environment.differences(RunReader(place).environment(), environment.describe())
    return "resumed", {"round": start, **({"changed": changed} if changed else {})}


def check_fits(found: State, expected: State, place: Path) -> None:
    """Refuses a checkpoint whose network is not this run's: a file that others made can hold anything."""
    theirs, ours = found.get("shared", {}), expected["shared"]
    strange = sorted(theirs.keys() ^ ours.keys())
    for name in ours.keys() & theirs.keys():
        if (theirs[name].shape, theirs[name].dtype) != (ours[name].shape, ours[name].dtype):
            strange.append(name)
    if strange:
        raise DiskError(
            f"{place}: its checkpoint is of another network ({strange[0]} does not fit). Put the run's own "
            "files back, or start it again under another name."
        )


def _timing(cohort: Cohort, seconds: float) -> dict[str, object]:
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit  # of this process
    detail = {"round": cohort.round, "seconds": round(seconds, 4), "participants": len(cohort.ids)}
    return {**detail, "peak_bytes": peak}


def read(place: Path) -> Result:
    """What a run has measured so far."""
    reader = RunReader(place)
    config = parse(reader.config(), str(place / layout.CONFIG))
    return Result(config.name, config.method.title, config.seeds[0], tuple(reader.metrics()))


def session(config: Config, place: Path) -> Session:
    """The simulation of a run, on the partition that is kept with it."""
    saved = config.changed({"split.file": str(place / PARTITION)})
    return build.experiment(saved).session(config.seeds[0])


def find(places: list[Path]) -> list[Path]:
    """Run directories named directly or below the folders named."""
    found: list[Path] = []
    for place in places:
        here = layout.runs_in(place) if place.is_dir() else []
        if not here:
            layout.check_run(place)
        found += here
    return list(dict.fromkeys(found))


def ensure(config: Config, seed: int, out: Path) -> Path:
    """The run of this configuration, begun if it is not there."""
    place = folder(config, seed, out)
    if not layout.is_run(place):
        return begin(config, seed, out)
    refuse_other(config, place)
    return place


def engine(place: Path) -> dict[str, Any]:
    """How the run there is simulated, as settings."""
    return parse(RunReader(place).config(), str(place / layout.CONFIG)).engine.model_dump()


def refuse_other(config: Config, place: Path) -> None:
    """Raises where the run there has other settings, but for its engine."""
    found = parse(RunReader(place).config(), str(place / layout.CONFIG))
    same = found.changed({"engine": config.engine.model_dump(), "seeds": list(config.seeds)})
    if same != config:
        key, theirs, ours = next(_differences(same.model_dump(), config.model_dump()))
        raise ConfigError(
            f"{place} holds a run with other settings ({key} = {theirs!r}, not {ours!r}). Remove it, or use another "
            "name (-s name=...) or --out."
        )


def _differences(one: object, other: object, key: str = "") -> Iterator[tuple[str, object, object]]:
    """Dotted keys with their two values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            yield from _differences(one.get(name), other.get(name), f"{key}.{name}".lstrip("."))
    elif one != other:
        yield key, one, other


def refuse_existing(config: Config, seed: int, out: Path) -> None:
    """Raises before anything is written where a run is already there."""
    place = folder(config, seed, out)
    if layout.is_run(place):
        refuse_other(config, place)
        raise ConfigError(
            f"{place} already holds a run. Continue it with `fedskew resume {place}` (a comparison: the same "
            "command with --resume), or choose another name or --out."
        )


def rounds_left(place: Path) -> int:
    """How many rounds a run still has to do."""
    done = max(stored.rounds(place), default=-1)  # a damaged one is told of, and replaced, when it is opened
    return int(RunReader(place).config()["train"]["rounds"]) - (done + 1)
