"""A worker that stays at a node between tasks, so that torch, network and examples are loaded once.

Flower starts a process for every task. That process only passes the parcel on, through a socket that is the
user's own; the worker ends when the SuperNode does, or when nobody has needed it for a while.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from fedskew.errors import DiskError, FedskewError
from fedskew.flower.parcel import Parcel, Settings, from_bytes, to_bytes

STARTING = 300.0  # seconds a worker may take to load everything
_KEYS = ("partition-id", "num-partitions", "state-dir", "threads")
_LENGTH = struct.Struct("<QQ")


class WorkerError(FedskewError):
    """A worker that did not answer, or what went wrong in it."""


@dataclass(frozen=True)
class Warm:
    """Passes parcels to the worker of this app; `load` names the function that gives the examples."""

    config: Path
    load: str  # module:function

    def __call__(self, parcel: Parcel, settings: Settings) -> Parcel:
        """The worker's answer; a worker that is not there, or dies, is started once more."""
        settings = _own(settings)
        for last in (False, True):
            try:
                with self._connect(settings) as line:
                    send(line, json.dumps(settings).encode(), to_bytes(parcel))
                    error, data = receive(line)
                break
            except (OSError, EOFError) as reason:
                if last:
                    raise WorkerError(
                        f"the worker of this node ended: {reason}; see {self._log(settings)}"
                    ) from reason
        if error:
            raise WorkerError(error.decode(errors="replace"))
        return from_bytes(data)

    def _connect(self, settings: Settings) -> socket.socket:
        address = self.address(settings)
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(address))
            return line
        except OSError:
            line.close()
        worker = self._start(address, settings)
        deadline = time.monotonic() + STARTING
        while time.monotonic() < deadline:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(str(address))
                return line
            except OSError:
                line.close()
                if worker.poll() not in (None, 0):
                    raise WorkerError(
                        f"the worker of this node did not start; see {self._log(settings)}"
                    ) from None
                time.sleep(0.05)
        raise WorkerError(f"the worker of this node took more than {STARTING:g} s to start.")

    def address(self, settings: Settings) -> Path:
        """The socket of the worker for this app and node."""
        key = json.dumps([str(self.config), self.load, sorted((k, str(v)) for k, v in settings.items())])
        return _folder() / hashlib.sha256(key.encode()).hexdigest()[:32]

    def _log(self, settings: Settings) -> Path:
        return Path(str(settings.get("state-dir", tempfile.gettempdir()))).expanduser() / "worker.log"

    def _start(self, address: Path, settings: Settings) -> subprocess.Popen[bytes]:
        log = self._log(settings)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "fedskew.flower.worker", str(self.config), self.load, str(address)]
        # The parent of this process is the SuperNode's executor: it ends with the SuperNode.
        command.append(str(os.getppid()))
        with log.open("ab") as out:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )


def _own(settings: Settings) -> dict[str, object]:
    """What of the settings the worker must know; the rest may change while it lives."""
    known = {key: settings[key] for key in _KEYS if key in settings}
    if "state-dir" in known:
        known["state-dir"] = str(Path(str(known["state-dir"])).expanduser().absolute())
    return known


def _folder() -> Path:
    """A folder for sockets that only this user can enter."""
    folder = Path(tempfile.gettempdir()) / f"fedskew-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077 or not stat.S_ISDIR(found.st_mode):
        raise DiskError(f"{folder} belongs to somebody else or is open to others. Remove it, or set TMPDIR.")
    return folder


def send(line: socket.socket, head: bytes, body: bytes) -> None:
    """Two pieces of bytes with their lengths."""
    line.sendall(_LENGTH.pack(len(head), len(body)) + head)
    line.sendall(body)


def receive(line: socket.socket) -> tuple[bytes, bytes]:
    """What `send` sent."""
    first, second = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    return _exactly(line, first), _exactly(line, second)


def _exactly(line: socket.socket, size: int) -> bytes:
    pieces, left = [], size
    while left:
        piece = line.recv(min(left, 1 << 20))
        if not piece:
            raise EOFError("the other side is gone")
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
