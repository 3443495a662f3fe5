"""The committed checkpoints of a run directory: which are there, which are whole, which one to go on from."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fedskew.errors import ConfigError, DiskError
from fedskew.store import durable, layout, proof
from fedskew.store.records import Manifest, Opening, Ref, decode_index, unseal


class Stored(NamedTuple):
    """A manifest and the index of client states it refers to."""

    manifest: Manifest
    clients: dict[int, Ref]

    def names(self) -> set[str]:
        """The content-named files this checkpoint needs."""
        states = {state_name(ref) for ref in self.clients.values()}
        return states | {state_name(self.manifest.server), index_name(self.manifest.index)}


class Recovery(NamedTuple):
    """What a run goes on from, what it may fall back to, and what was found damaged."""

    latest: Stored | None
    previous: Stored | None
    damage: tuple[str, ...]


def state_name(ref: Ref) -> str:
    """The file of a state."""
    return f"{ref.sha256}.safetensors"


def index_name(ref: Ref) -> str:
    """The file of an index."""
    return f"{ref.sha256}.json"


def opening(folder: Path) -> tuple[Opening, str]:
    """What the run began with, and the hash that its manifests carry."""
    if not layout.is_run(folder):
        raise ConfigError(
            f"{folder} holds no run (it has no {layout.OPENING}). Start one with `fedskew run`."
        )
    path = folder / layout.OPENING
    data = proof.small(path)
    return unseal(data, Opening, path), Ref.of(data).sha256


def check_opening(folder: Path, opening: Opening) -> None:
    """Refuses a run whose config, partition or environment is not what it began with."""
    for name, ref in opening.files.items():
        try:
            proof.check(folder / name, ref)
        except DiskError as error:
            advice = "A run goes on with exactly what it began with: put the file back, or start another run."
            raise DiskError(f"{error} {advice}") from error


def read(folder: Path, run: str, round: int) -> Stored:
    """The manifest of a round and its index, both checked."""
    path = folder / layout.CHECKPOINTS / layout.manifest(round)
    manifest = unseal(proof.small(path), Manifest, path)
    if manifest.run != run or manifest.round != round:
        raise DiskError(f"{path}: belongs to another run or round.")
    index = folder / layout.STATES / index_name(manifest.index)
    return Stored(manifest, decode_index(proof.whole(index, manifest.index), index))


def check(folder: Path, stored: Stored) -> None:
    """Refuses a checkpoint of which any byte has changed."""
    manifest, states = stored.manifest, folder / layout.STATES
    proof.check(states / state_name(manifest.server), manifest.server)
    for ref in sorted(set(stored.clients.values())):
        proof.check(states / state_name(ref), ref)
    proof.prefix(folder / layout.METRICS, manifest.metrics)
    proof.prefix(folder / layout.CLIENTS, manifest.clients)


def recover(folder: Path, run: str) -> Recovery:
    """The newest whole checkpoint and the one before it; a run without any is new, one without a whole one lost."""
    with durable.explained(folder / layout.CHECKPOINTS, "read"):
        rounds = layout.rounds(folder)
    damage: list[str] = []
    latest = _first(folder, run, rounds, damage, thorough=True)
    if latest is None:
        if damage:
            raise DiskError(_lost(folder, damage))
        return Recovery(None, None, ())
    older = [round for round in rounds if round < latest.manifest.round]
    previous = _first(folder, run, older, damage, thorough=False)
    return Recovery(latest, previous, tuple(damage))


def _first(folder: Path, run: str, rounds: Iterable[int], damage: list[str], thorough: bool) -> Stored | None:
    for round in rounds:
        try:
            found = read(folder, run, round)
            if thorough:
                check(folder, found)
        except DiskError as error:
            damage.append(f"the checkpoint of round {round} cannot be used: {error}")
        else:
            return found
    return None


def _lost(folder: Path, damage: list[str]) -> str:
    advice = "Put the named file back from a copy, or start the run again under another name."
    return f"{folder}: no checkpoint is whole. {' '.join(damage)} {advice}"
