"""The names inside a run directory."""

import os
import re
from pathlib import Path

from fedskew.errors import ConfigError

OPENING = "run.json"  # seals the files below that never change; written last, so it says that a run exists
CONFIG = "config.toml"
ENVIRONMENT = "environment.json"
METRICS = "metrics.jsonl"
CLIENTS = "clients.jsonl"
EVENTS = "events.jsonl"
LOCK = "lock"
CHECKPOINTS = "checkpoints"  # one manifest per kept round
STATES = "states"  # content-named files the manifests refer to
PART = ".part"  # a file that is still being written
PLAIN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"  # a name that cannot leave its directory

_OWN = frozenset({OPENING, CONFIG, ENVIRONMENT, METRICS, CLIENTS, EVENTS, LOCK, CHECKPOINTS, STATES})
_MANIFEST = re.compile(r"round-(\d{8})\.json")


def manifest(round: int) -> str:
    """The name of the manifest of a round."""
    return f"round-{round:08d}.json"


def round_of(name: str) -> int | None:
    """The round a manifest is named for; None if the name is not a manifest's."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def is_run(folder: Path) -> bool:
    """Whether a run was begun here; a directory whose creation was cut short holds none."""
    return (folder / OPENING).is_file()


def runs_in(folder: Path) -> list[Path]:
    """The run directories here and below."""
    found = []
    for place, below, files in os.walk(folder):
        if OPENING in files:
            found.append(Path(place))
            below.clear()  # a run's own folders can hold many thousand files
    return sorted(found)


def check_run(folder: Path) -> None:
    """Refuses a folder that is no run, and names those below it."""
    if not is_run(folder):
        below = ", ".join(map(str, runs_in(folder)[:8]))
        there = f"Runs below it: {below}." if below else "`fedskew ls` lists the runs."
        raise ConfigError(f"{folder}: no run there. {there}")


def check_names(files: frozenset[str]) -> None:
    """Refuses a caller's file that would leave the directory or hide one of its own."""
    for name in sorted(files):
        if not re.fullmatch(PLAIN, name) or name in _OWN or name.endswith(PART):
            raise ValueError(f"'{name}' cannot be the name of a file in a run directory")


def check_vacant(folder: Path, files: frozenset[str]) -> None:
    """Refuses to begin a run where there is one, or anything but the remains of a start that failed."""
    if is_run(folder):
        raise ConfigError(
            f"{folder} already holds a run. Continue it with `fedskew resume`, or use another name."
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"{folder} is a file, not a directory. Use another name for the run.")
    known = _OWN | files
    strange = sorted(entry.name for entry in folder.iterdir() if entry.name.removesuffix(PART) not in known)
    if strange:
        raise ConfigError(f"{folder} is not empty (it holds '{strange[0]}'). Use another name for the run.")
    kept = folder / CHECKPOINTS
    if kept.is_dir() and any(kept.iterdir()):
        raise ConfigError(
            f"{folder} holds checkpoints but no {OPENING}; nothing in it was touched. Move it away."
        )
