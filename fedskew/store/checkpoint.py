"""A committed round as the values training goes on from."""

from pathlib import Path
from typing import NamedTuple

from fedskew.errors import DiskError
from fedskew.store import codec, layout, proof, stored
from fedskew.store.kept import Kept
from fedskew.store.records import Ref
from fedskew.store.stored import Stored
from fedskew.tree import State

_TRIES = 5  # a writer that commits twice meanwhile removes what one was about to read


class Checkpoint(NamedTuple):
    """The server and the clients after a round; the clients' states are read, and checked, on demand."""

    round: int
    server: State
    kept: Kept


def load(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint, for those who only look: nothing is locked, repaired or written."""
    _, run = stored.opening(folder)
    for _ in range(_TRIES):
        before = stored.rounds(folder)
        try:
            found = stored.recover(folder, run).latest
            return None if found is None else of(folder, found)
        except DiskError:
            if stored.rounds(folder) == before:
                raise
    raise DiskError(f"{folder}: was written again and again while it was read. Try again.")


def of(folder: Path, found: Stored) -> Checkpoint:
    """The values of a checkpoint."""
    kept = Kept(lambda: found.clients, lambda ref: state(folder, ref))
    return Checkpoint(found.manifest.round, state(folder, found.manifest.server), kept)


def state(folder: Path, ref: Ref) -> State:
    """One state, checked as it is read."""
    path = folder / layout.STATES / stored.state_name(ref)
    return codec.decode(proof.whole(path, ref), path)
