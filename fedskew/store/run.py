"""The one writer of a run directory: durable lines, atomic checkpoints, exact resume."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from fedskew.store import checkpoint, commit, diary, durable, layout, stored
from fedskew.store.checkpoint import Checkpoint
from fedskew.store.diary import Diary
from fedskew.store.environment import Environment
from fedskew.store.journal import Journal
from fedskew.store.kept import Kept
from fedskew.store.lock import Lock
from fedskew.store.records import NOTHING, Manifest, Opening, Ref, seal
from fedskew.store.stored import Recovery, Stored
from fedskew.tree import State


class RunStore:
    """Owns a run directory while open; made by `create` or `open`, closed by `with`."""

    def __init__(self, folder: Path, lock: Lock) -> None:
        """Takes up the run where it was last committed; `create` and `open` call this."""
        self.folder, self._lock = folder, lock
        opening, self._run = stored.opening(folder)
        stored.check_opening(folder, opening)
        found = stored.recover(folder, self._run)
        self._latest, self._previous = found.latest, found.previous
        self._metrics = Journal(folder / layout.METRICS)
        self._clients = Journal(folder / layout.CLIENTS)
        self.warnings = (*found.damage, *diary.damage(folder / layout.EVENTS))
        self._diary = Diary(folder / layout.EVENTS)
        self._settle(found)

    @classmethod
    def create(
        cls, folder: Path, config: str, environment: Environment, files: Mapping[str, bytes]
    ) -> RunStore:
        """Begins a run in a new or empty directory; until this returns there is no run there."""
        names = frozenset(files)
        layout.check_names(names)
        layout.check_vacant(folder, names)
        durable.make_folder(folder)
        lock = Lock(folder / layout.LOCK)
        try:
            layout.check_vacant(folder, names)  # another process may have been faster
            described = json.dumps(environment, indent=1) + "\n"
            texts = {layout.CONFIG: config.encode(), layout.ENVIRONMENT: described.encode()}
            _begin(folder, {**texts, **files})
            return cls(folder, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, folder: Path) -> RunStore:
        """Goes on with a run from its newest whole checkpoint; what came after it is dropped."""
        stored.opening(folder)
        lock = Lock(folder / layout.LOCK)
        try:
            return cls(folder, lock)
        except BaseException:
            lock.release()
            raise

    @property
    def round(self) -> int | None:
        """The last committed round."""
        return None if self._latest is None else self._latest.manifest.round

    def log_metrics(self, record: Mapping[str, object]) -> None:
        """One durable line of a round that is not committed yet; no times, they are events."""
        self._log(self._metrics, [record])

    def log_clients(self, records: Iterable[Mapping[str, object]]) -> None:
        """Durable lines, one per client of a round that is not committed yet."""
        self._log(self._clients, list(records))

    def log_event(self, event: str, detail: Mapping[str, object]) -> None:
        """One durable line with the time of day; it belongs to this machine, not to the result."""
        self._lock.check()
        self._diary.append(event, detail)

    def save(self, round: int, server: State, changed: Mapping[int, State]) -> None:
        """Commits a round in one step: all of it is there afterwards, or the round before it is."""
        self._check_round(round)
        self._lock.check()
        server_ref, index, clients = commit.put_states(self.folder, self._latest, server, changed)
        manifest = Manifest(
            run=self._run,
            round=round,
            server=server_ref,
            index=index,
            metrics=self._metrics.mark(),
            clients=self._clients.mark(),
        )
        durable.put(self.folder / layout.CHECKPOINTS / layout.manifest(round), seal(manifest))
        self._latest, self._previous = Stored(manifest, clients), self._latest
        commit.sweep(self.folder, self._latest, self._previous)

    def load(self) -> Checkpoint | None:
        """The last committed round; None before the first."""
        if self._latest is None:
            return None
        found = checkpoint.of(self.folder, self._latest)
        return found._replace(kept=self.kept())

    def kept(self) -> Kept:
        """What clients remember, following every commit of this store."""
        return Kept(self._index, lambda ref: checkpoint.state(self.folder, ref))

    def close(self) -> None:
        """Lets another process in; what was not committed is dropped when the run is opened again."""
        self._lock.release()

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _index(self) -> Mapping[int, Ref]:
        return {} if self._latest is None else self._latest.clients

    def _log(self, journal: Journal, records: list[Mapping[str, object]]) -> None:
        for record in records:
            self._check_round(record.get("round"))
        self._lock.check()
        journal.append(records)

    def _check_round(self, round: object) -> None:
        committed = -1 if self.round is None else self.round
        if not isinstance(round, int) or round <= committed:
            raise ValueError(f"round {round} does not come after the committed round {committed}")

    def _settle(self, found: Recovery) -> None:
        """Drops what came after the checkpoint, and notes what was found."""
        manifest = None if found.latest is None else found.latest.manifest
        dropped = {
            layout.METRICS: self._metrics.rewind(NOTHING if manifest is None else manifest.metrics),
            layout.CLIENTS: self._clients.rewind(NOTHING if manifest is None else manifest.clients),
        }
        if not found.damage:  # what is damaged stays for whoever wants to look, until the next commit
            commit.sweep(self.folder, self._latest, self._previous)
        former = None if self._lock.former is None else self._lock.former._asdict()
        detail = {"round": self.round, "warnings": self.warnings, "dropped_bytes": dropped, "lock_of": former}
        self._diary.append("opened", detail)


def _begin(folder: Path, files: Mapping[str, bytes]) -> None:
    """All files of a new run; the opening comes last and makes it one."""
    durable.make_folder(folder / layout.CHECKPOINTS)
    durable.make_folder(folder / layout.STATES)
    journals = dict.fromkeys((layout.METRICS, layout.CLIENTS, layout.EVENTS), b"")
    durable.put_all(folder, {**files, **journals}.items())
    opening = Opening(files={name: Ref.of(data) for name, data in files.items()})
    durable.put(folder / layout.OPENING, seal(opening))
