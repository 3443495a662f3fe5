"""A long run that begins with what a shorter one of the same settings has done."""

from __future__ import annotations

from pathlib import Path

from fedskew import build, runs
from fedskew.config import Config, EngineTable, parse
from fedskew.evaluate import due
from fedskew.store import diary, layout
from fedskew.store.reader import RunReader
from fedskew.store.run import RunStore

_OF_THAT_PROCESS = ("opened", "started", "resumed", "finished", diary.DAMAGED)  # events that are left behind


def is_beginning(shorter: Path, config: Config, seed: int) -> bool:
    """Whether the run there has done the first rounds of this one, bit for bit."""
    if not layout.is_run(shorter) or _counts_on_its_length(config):
        return False
    reader = RunReader(shorter)
    found, done = parse(reader.config(), str(shorter / layout.CONFIG)), reader.round()
    if not _same_bits(found.engine, config.engine):
        return False
    ours = {"name": config.name, "train.rounds": config.train.rounds, "engine": config.engine.model_dump()}
    alike = found.seeds == (seed,) and found.changed({**ours, "seeds": list(config.seeds)}) == config
    return alike and done is not None and done + 1 < config.train.rounds


def _same_bits(found: EngineTable, wanted: EngineTable) -> bool:
    """Whether the engine that was used is the one wanted, or may be."""
    return all(getattr(wanted, key) in ("auto", getattr(found, key)) for key in ("name", "backend", "device"))


def _counts_on_its_length(config: Config) -> bool:
    """Whether a part follows a schedule over the rounds of the whole run."""
    return any(getattr(part, "rounds", 0) is None for part in build.method(config).parts)


def begin(shorter: Path, config: Config, seed: int, out: Path) -> Path:
    """Makes the run's directory with the engine, the state, the times and the due measurements of the shorter run."""
    reader = RunReader(shorter)
    used = parse(reader.config(), str(shorter / layout.CONFIG)).engine
    with RunStore.open(shorter) as old:  # first, since a run that is at work cannot be copied
        place = runs.begin(config.changed({"engine": used.model_dump()}), seed, out)
        with RunStore.open(place) as new:
            _copy(old, reader, new, config)
    return place


def _copy(old: RunStore, reader: RunReader, new: RunStore, config: Config) -> None:
    point = old.load()
    if point is None:
        return
    plan, ensemble = build.experiment(config), any(kept["private"] for kept in point.kept.values())
    for record in reader.metrics():
        new.log_metrics(due(record, plan.timetable, plan.rounds, ensemble))
    new.log_clients(one for one in reader.clients() if plan.timetable.clients(one["round"], plan.rounds))
    for event in reader.events():
        if event["event"] not in _OF_THAT_PROCESS:
            detail = {key: value for key, value in event.items() if key not in diary.RESERVED}
            new.log_event(event["event"], detail)
    new.log_event(diary.PROLONGED, {"round": point.round})
    new.save(point.round, point.server, point.kept)
