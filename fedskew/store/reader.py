"""Reading a run, also while another process writes it: no lock, no repair, no torch."""

import json
import tomllib
from pathlib import Path
from typing import Any

from fedskew.errors import DiskError
from fedskew.store import diary, journal, layout, proof, stored
from fedskew.store.records import NOTHING, Manifest, Ref, unseal

_TRIES = 5  # a writer that commits twice meanwhile removes the manifest one was about to read


class RunReader:
    """What a run directory says; every answer is checked against what was committed, or refused."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opening, self._run = stored.opening(folder)

    def file(self, name: str) -> bytes:
        """One of the files the run began with: config, environment, partition."""
        if name not in self._opening.files:
            raise KeyError(name)
        return proof.whole(self.folder / name, self._opening.files[name])

    def began_with(self, name: str) -> bool:
        """Whether this is one of the files the run began with."""
        return name in self._opening.files

    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return tomllib.loads(self.file(layout.CONFIG).decode())

    def environment(self) -> dict[str, Any]:
        """The machine and the versions the run began on."""
        found: dict[str, Any] = json.loads(self.file(layout.ENVIRONMENT))
        return found

    def round(self) -> int | None:
        """The last committed round."""
        manifest = self._newest()
        return None if manifest is None else manifest.round

    def metrics(self, live: bool = False) -> list[dict[str, Any]]:
        """The committed metrics; `live` adds lines of rounds that are not committed yet."""
        manifest = self._newest()
        return self._lines(layout.METRICS, NOTHING if manifest is None else manifest.metrics, live)

    def clients(self, live: bool = False) -> list[dict[str, Any]]:
        """The committed records of clients; `live` adds lines of rounds that are not committed yet."""
        manifest = self._newest()
        return self._lines(layout.CLIENTS, NOTHING if manifest is None else manifest.clients, live)

    def events(self) -> list[dict[str, Any]]:
        """What happened, with times; a damaged line is an event of its own."""
        return diary.read(self.folder / layout.EVENTS)

    def _lines(self, name: str, mark: Ref, live: bool) -> list[dict[str, Any]]:
        return journal.read(self.folder / name, mark, live)

    def _newest(self) -> Manifest | None:
        for _ in range(_TRIES):
            rounds = stored.rounds(self.folder)
            if not rounds:
                return None
            path = self.folder / layout.CHECKPOINTS / layout.manifest(rounds[0])
            if path.exists():
                return self._checked(path)
        raise DiskError(f"{path}: was replaced again and again while it was read. Try again.")

    def _checked(self, path: Path) -> Manifest:
        manifest = unseal(proof.small(path), Manifest, path)
        if manifest.run != self._run or layout.manifest(manifest.round) != path.name:
            raise DiskError(f"{path}: belongs to another run or round.")
        return manifest
