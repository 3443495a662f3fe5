"""A whole deployment on this machine: SuperLink and SuperNodes with TLS and node keys, over loopback.

Every process is started here, watched, started again if it dies, and ended by its own number.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

import tomli_w

from fedskew.errors import FedskewError
from fedskew.flower.certificates import certificates, node_key
from fedskew.flower.processes import children, gone

HOST = "127.0.0.1"
LINK = "local"  # the name of the connection in Flower's configuration
STARTING = 120.0  # seconds the SuperLink may take to answer
ENDING = 10.0
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",  # seconds; each look is a request that costs the SuperLink
}


class DeploymentError(FedskewError):
    """A process of Flower that did not do what it should."""


class Deployment:
    """Folder, ports, keys and processes; ended by `with`."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder, self.nodes = folder.resolve(), nodes
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._groups: dict[str, set[int]] = {}  # process groups that came from each
        self._helpers: list[int] = []  # processes without which a SuperLink only seems to live
        self.port, *self._ports = free_ports(1 + nodes)
        self._memory = _fast_folder(self.folder)
        self.files = certificates(self.folder / "certificates", ("localhost", HOST))
        self.environment = {**os.environ, **QUIET, "FLWR_HOME": str(self.folder / "home"), "PATH": _path()}
        for inner in ("home", "logs"):
            (self.folder / inner).mkdir(exist_ok=True)
        link = {"address": f"{HOST}:{self.port}", "root-certificates": str(self.files.authority)}
        text = tomli_w.dumps({"superlink": {"default": LINK, LINK: link}})
        (self.folder / "home" / "config.toml").write_text(text)

    def start(self) -> None:
        """Starts the SuperLink, registers a key for every SuperNode and starts them."""
        self.start_link()
        keys = [node_key(self.key(number)) for number in range(self.nodes)]
        self._all([["flwr", "supernode", "register", str(key), LINK] for key in keys])
        for number in range(self.nodes):
            self.start_node(number)

    def start_link(self) -> None:
        """Starts the SuperLink on its port and its database, new or as it was left."""
        ca, certificate, key = map(str, self.files)
        command = ["flower-superlink", "--host", HOST, "--port", str(self.port), "--enable-supernode-auth"]
        command += ["--ssl-ca-certfile", ca, "--ssl-certfile", certificate, "--ssl-keyfile", key]
        command += ["--database", str(self._memory / "superlink.db")]
        command += ["--disable-runtime-dependency-installation"]
        self.spawn("superlink", command)
        deadline = time.monotonic() + STARTING
        while not self._answers():
            if time.monotonic() > deadline or self.processes["superlink"].poll() is not None:
                raise DeploymentError(f"the SuperLink did not start; see {self.log('superlink')}.")
            time.sleep(0.2)
        # The executor, which starts server apps, leads a group of its own.
        found = children(self.processes["superlink"].pid)
        self._groups["superlink"] |= set(found.values())
        self._helpers = list(found)

    def start_node(self, number: int) -> None:
        """Starts a SuperNode."""
        settings = f'partition-id={number} num-partitions={self.nodes} state-dir="{self.folder / "clients"}"'
        command = ["flower-supernode", "--superlink", f"{HOST}:{self.port}", "--node-config", settings]
        command += ["--root-certificates", str(self.files.authority)]
        command += ["--auth-supernode-private-key", str(self.key(number))]
        command += ["--host", HOST, "--port", str(self._ports[number])]
        self.spawn(f"supernode-{number}", command)

    def key(self, number: int) -> Path:
        """The private key of a SuperNode."""
        return self.folder / "keys" / f"node-{number}"

    def log(self, name: str) -> Path:
        """What a process has said."""
        return self.folder / "logs" / f"{name}.log"

    def spawn(self, name: str, command: Sequence[str]) -> None:
        """Starts a process of its own group, whose output goes to its log; what is left of the last one ends."""
        self._end(name)
        if name in self.processes:
            self.processes[name].wait()
        with self.log(name).open("ab") as out:
            self.processes[name] = self._popen(command, out)
        self._groups[name] = {self.processes[name].pid}

    def call(self, command: Sequence[str]) -> str:
        """Runs a command of Flower to its end; its output."""
        with self.log("commands").open("ab") as out:
            out.write(f"$ {' '.join(command)}\n".encode())
            try:
                done = subprocess.run(
                    command,
                    env=self.environment,
                    cwd=self.folder,
                    capture_output=True,
                    timeout=STARTING,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise DeploymentError(f"`{' '.join(command[:3])}` took more than {STARTING:g} s.") from None
            out.write(done.stdout + done.stderr)
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace").strip()
            raise DeploymentError(f"`{' '.join(command[:3])}` failed: {said[-500:]}")
        return done.stdout.decode(errors="replace")

    def submit(self, app: Path, place: Path) -> None:
        """Sends the app to the SuperLink as a run that continues what is in `place`."""
        settings = f'run-dir="{place.resolve()}" resume=true'
        self.call(["flwr", "run", str(app.resolve()), LINK, "--run-config", settings])

    def revive(self) -> Iterator[str]:
        """Starts again what has died; tells whom."""
        # An executor that once meets a busy database ends, and its SuperLink would wait for ever.
        if self.processes["superlink"].poll() is not None or any(map(gone, self._helpers)):
            yield "superlink"
            self.start_link()
        for number in range(self.nodes):
            name = f"supernode-{number}"
            if self.processes[name].poll() is not None:
                yield name
                self.start_node(number)

    def close(self) -> None:
        """Ends every process that was started here: politely, then not."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + ENDING
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for name in list(self.processes):
            self._end(name)
            self.processes.pop(name).wait()
        shutil.rmtree(self._memory, ignore_errors=True)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, name: str) -> None:
        """Ends the apps that a SuperLink or SuperNode has left: they would go on calling it, and hold the run."""
        for group in self._groups.pop(name, ()):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def _popen(self, command: Sequence[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _all(self, commands: Sequence[Sequence[str]]) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.call, commands))

    def _answers(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.files.authority))
        try:
            with (
                socket.create_connection((HOST, self.port), 1.0) as plain,
                context.wrap_socket(plain, server_hostname=HOST),
            ):
                return True
        except OSError:
            return False


def _fast_folder(otherwise: Path) -> Path:
    """A folder in memory where the system has such: Flower gives up on a database that is busy for 5 seconds.

    Nothing in it is needed after the deployment, which makes new keys and takes new ports each time.
    """
    memory = Path("/dev/shm")
    otherwise.mkdir(parents=True, exist_ok=True)
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else otherwise
    return Path(tempfile.mkdtemp(prefix="fedskew-", dir=place))


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(held.getsockname()[1]) for held in sockets]
    for held in sockets:
        held.close()
    return ports


def _path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
