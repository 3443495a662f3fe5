"""The worker of a node as a process: `python -m fedskew.flower.worker CONFIG MODULE:FUNCTION SOCKET PARENT`."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from fedskew.errors import FedskewError
from fedskew.flower.client import handler
from fedskew.flower.parcel import Handler, UnusableError, from_bytes, to_bytes
from fedskew.flower.processes import gone
from fedskew.flower.warm import receive, send

IDLE = 600.0  # seconds after which nobody seems to need a worker


def main(config: Path, load: str, address: Path, parent: int) -> None:
    """Serves one task after the other until the parent is gone or nobody asks."""
    sys.path.insert(0, str(config.parent.parent))  # the app's own modules
    with address.with_suffix(".lock").open("w") as alone:
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another worker was faster
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(address))
            door.listen()
            threading.Thread(target=_follow, args=(parent, address), daemon=True).start()
            module, _, function = load.partition(":")
            _serve(door, handler(config, getattr(import_module(module), function)))
        address.unlink(missing_ok=True)


def _serve(door: socket.socket, handle: Handler) -> None:
    door.settimeout(IDLE)
    while True:
        try:
            line, _ = door.accept()
        except TimeoutError:
            return
        with line, suppress(OSError, EOFError):  # whoever asked is gone; its task will be given again
            line.settimeout(None)
            head, body = receive(line)
            send(line, *_answer(handle, head, body))


def _answer(handle: Handler, head: bytes, body: bytes) -> tuple[bytes, bytes]:
    try:
        return b"", to_bytes(handle(from_bytes(body), json.loads(head)))
    except (FedskewError, UnusableError) as error:
        return str(error).encode(), b""
    except Exception:
        return traceback.format_exc().encode(), b""


def _follow(parent: int, address: Path) -> None:
    while not gone(parent):
        time.sleep(0.5)
    address.unlink(missing_ok=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
