"""The committed checkpoints of a run directory: which are there, which are whole, which one to go on from."""

from pathlib import Path
from typing import NamedTuple

from fedskew.errors import DiskError
from fedskew.store import durable, layout, proof
from fedskew.store.records import Manifest, Opening, Ref, decode_index, unseal

KEPT = 2  # checkpoints; older ones are on their way out and may have lost states already


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
    layout.check_run(folder)
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


def rounds(folder: Path) -> list[int]:
    """The rounds with a manifest, newest first."""
    path = folder / layout.CHECKPOINTS
    with durable.explained(path, "read"):
        found = [layout.round_of(entry.name) for entry in path.iterdir()]
    return sorted((round for round in found if round is not None), reverse=True)


def read(folder: Path, run: str, round: int) -> Stored:
    """The manifest of a round and its index, both checked."""
    path = folder / layout.CHECKPOINTS / layout.manifest(round)
    manifest = unseal(proof.small(path), Manifest, path)
    if manifest.run != run or manifest.round != round:
        raise DiskError(f"{path}: belongs to another run or round.")
    index = folder / layout.STATES / index_name(manifest.index)
    return Stored(manifest, decode_index(proof.whole(index, manifest.index), index))


def check(folder: Path, stored: Stored, sound: set[Ref]) -> None:
    """Refuses a checkpoint of which any byte has changed; `sound` grows by the states that have not."""
    manifest = stored.manifest
    for ref in sorted({manifest.server, *stored.clients.values()} - sound):
        proof.check(folder / layout.STATES / state_name(ref), ref)
        sound.add(ref)
    proof.prefix(folder / layout.METRICS, manifest.metrics)
    proof.prefix(folder / layout.CLIENTS, manifest.clients)


def recover(folder: Path, run: str) -> Recovery:
    """The two newest whole checkpoints; to have none at all is a new run, to have none whole an error."""
    whole: list[Stored] = []
    damage: list[str] = []
    sound: set[Ref] = set()
    for round in rounds(folder):
        if len(whole) == KEPT:
            break
        try:
            found = read(folder, run, round)
            check(folder, found, sound)
            whole.append(found)
        except DiskError as error:
            damage.append(f"the checkpoint of round {round} cannot be used: {error}")
    if damage and not whole:
        raise DiskError(_lost(folder, damage))
    latest, previous, *_ = [*whole, None, None]
    return Recovery(latest, previous, tuple(damage))


def _lost(folder: Path, damage: list[str]) -> str:
    advice = "Put the named file back from a copy, or start the run again under another name."
    return f"{folder}: no checkpoint is whole. {' '.join(damage)} {advice}"
