"""Processes of a deployment killed in the middle of a round: the run ends as if nothing had been."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from flower_runs import NODES, Fingerprint, config, deployed_run, simulated_run

from fedskew.flower.deployment import Deployment

pytestmark = pytest.mark.slow
PATIENCE = 120.0  # seconds to wait for the process that is to be killed
# Every node works in every round, and what is lost is asked for again soon.
SETTINGS = config("scaffold").changed({"train.participation": 1.0, "flower.resend": 30.0})


def below(pid: int) -> Iterator[tuple[int, str]]:
    """A process and all that came from it, with their command lines."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            command = path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended meanwhile
        if parent == pid:
            yield int(path.parent.name), command
            yield from below(int(path.parent.name))


def app_of(name: str, kind: str) -> Callable[[Deployment], int | None]:
    """The number of an app's process that came from this process of the deployment, while there is one."""

    def find(deployment: Deployment) -> int | None:
        return next((p for p, line in below(deployment.processes[name].pid) if kind in line), None)

    return find


VICTIMS: dict[str, Callable[[Deployment], int | None]] = {
    "SuperNode": lambda deployment: deployment.processes["supernode-1"].pid,
    "ClientApp": app_of("supernode-1", "flwr-clientapp"),
    "ServerApp": app_of("superlink", "flwr-serverapp"),
    "SuperLink": lambda deployment: deployment.processes["superlink"].pid,
}


class Killer:
    """Waits for the first committed round, then for a client at work, and kills its victim."""

    def __init__(self, deployment: Deployment, victim: str) -> None:
        self.deployment, self.victim, self.killed = deployment, victim, 0
        self.told: list[str] = []
        self._thread = threading.Thread(target=self._kill, daemon=True)

    def tell(self, line: str) -> None:
        """Follows the run."""
        self.told.append(line)
        if line.startswith("round 1") and not self._thread.ident:
            self._thread.start()

    def _kill(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            at_work = VICTIMS["ClientApp"](self.deployment)
            found = VICTIMS[self.victim](self.deployment) if at_work else None
            if found is not None:
                os.kill(found, signal.SIGKILL)  # a process that this test has started
                self.killed = found
                return
            time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Fingerprint:
    return simulated_run(SETTINGS, tmp_path_factory.mktemp("simulated"))


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_kill_changes_nothing(victim: str, undisturbed: Fingerprint, tmp_path: Path) -> None:
    with Deployment(tmp_path / "deployment", NODES) as deployment:
        deployment.start()
        killer = Killer(deployment, victim)

        found = deployed_run(deployment, SETTINGS, tmp_path / "deployed", killer.tell)
    assert killer.killed
    assert found == undisturbed
