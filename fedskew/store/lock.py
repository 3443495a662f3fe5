"""One writer per run directory: an advisory lock that the kernel releases when its owner dies.

The file stays where it is, so that nobody can delete another's lock; what it says serves the message only.
"""

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from fedskew.errors import DiskError, LockedError
from fedskew.store.durable import explained

PATIENCE = 0.5  # seconds a new owner may take to write its name
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_LARGEST_PID = 2**31 - 1
_LONGEST = 1000  # bytes of a lock file that are read


class Owner(NamedTuple):
    """A process, told apart from a later one with the same number by its start time."""

    pid: int
    started: int | None  # clock ticks after boot; None where /proc does not tell
    host: str

    @classmethod
    def here(cls) -> "Owner":
        """This process."""
        return cls(os.getpid(), start_time(os.getpid()), socket.gethostname())

    def alive(self) -> bool:
        """Whether the process still runs; one on another machine is taken to."""
        if self.host != socket.gethostname():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return self.started is None or self.started == start_time(self.pid)


def start_time(pid: int) -> int | None:
    """When a process began, in clock ticks after boot; None if it is gone or the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text()
        return int(fields.rpartition(")")[2].split()[19])  # the name in parentheses may hold anything
    except (OSError, ValueError, IndexError):
        return None


class Lock:
    """A held lock; `former` is the owner that died without releasing it."""

    def __init__(self, path: Path) -> None:
        """Takes the lock at once or raises LockedError."""
        self.path = path
        with explained(path, "opened"):
            self._descriptor: int | None = os.open(path, _FLAGS, 0o666)
        try:
            self._take(self._descriptor)
            self.former = _read(self._descriptor)
            self.check()
        except BaseException:
            os.close(self._descriptor)
            raise
        _held.add(self)
        self._sign(canonical_owner(Owner.here()))

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(_refusal(self.path, descriptor)) from None
        except OSError as error:
            raise DiskError(
                f"{self.path}: cannot be locked: {error.strerror}. Keep runs on a disk that knows locks."
            ) from error

    def _sign(self, text: bytes) -> None:
        # The lock holds without its text, so a full disk is no reason to refuse.
        if self._descriptor is not None:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, text, 0)

    def check(self) -> None:
        """Refuses to go on once the directory is no longer the one that was locked."""
        try:
            if self._descriptor is not None and os.path.samestat(
                os.fstat(self._descriptor), self.path.stat()
            ):
                return
        except OSError:
            pass
        raise LockedError(
            f"{self.path.parent}: this process no longer owns the run directory; it was closed here, or "
            "removed or replaced by somebody. Nothing more is written into it."
        )

    def release(self) -> None:
        """Lets the next process in."""
        if self._descriptor is not None:
            self._sign(b"")
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.disown()

    def disown(self) -> None:
        """Closes this process's copy and leaves the lock itself to whoever shares it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


def refuse_if_owned(path: Path) -> None:
    """Raises LockedError where a living process holds this lock; leaves the file as it is."""
    with explained(path, "opened"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockedError(_refusal(path, descriptor)) from None
    finally:
        os.close(descriptor)


_held: WeakSet[Lock] = WeakSet()


def _disown_all() -> None:
    for lock in list(_held):
        lock.disown()


# A forked worker shares the lock: without this, one that outlives a killed owner would go on holding it.
os.register_at_fork(after_in_child=_disown_all)


def canonical_owner(owner: Owner) -> bytes:
    """The text of a lock file."""
    return json.dumps(owner._asdict()).encode() + b"\n"


def _read(descriptor: int) -> Owner | None:
    try:
        said = json.loads(os.pread(descriptor, _LONGEST, 0))
        pid, started = said["pid"], said["started"]
        if isinstance(pid, int) and 0 < pid <= _LARGEST_PID and isinstance(started, int | None):
            return Owner(pid, started, str(said["host"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    return None


def _refusal(path: Path, descriptor: int) -> str:
    """Who holds the lock; a name that a dead owner left is given the time to be replaced."""
    deadline = time.monotonic() + PATIENCE
    owner = _read(descriptor)
    while (owner is None or not owner.alive()) and time.monotonic() < deadline:
        time.sleep(0.01)
        owner = _read(descriptor)
    if owner is None or not owner.alive():
        return f"{path.parent} is in use by another process. Wait for it to end, then try again."
    return (
        f"{path.parent} is in use by process {owner.pid} on {owner.host}. Wait for it to end, or stop it "
        f"(kill {owner.pid}) and then `fedskew resume`; nothing was changed."
    )
