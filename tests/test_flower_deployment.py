"""A real deployment, TLS and node keys over loopback, gives the simulator's bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from flower_runs import NODES, config, deployed_run, simulated_run

from fedskew.errors import ConfigError
from fedskew.flower import local
from fedskew.flower.deployment import Deployment


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(tmp_path / "deployment", NODES) as started:
        started.start()
        yield started


@pytest.mark.parametrize(
    "methods",
    [
        pytest.param(["scaffold"], id="short"),
        pytest.param(["fedavg", "fedova", "map", "grpfed"], marks=pytest.mark.slow, id="long"),
    ],
)
def test_a_deployment_equals_the_simulator(
    methods: list[str], deployment: Deployment, tmp_path: Path
) -> None:
    for method in methods:  # one deployment serves one run after the other
        found = deployed_run(deployment, config(method), tmp_path / "deployed", lambda line: None)
        assert found == simulated_run(config(method), tmp_path / "simulated")
        assert found.clients


def test_more_supernodes_than_clients_are_not_started(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--nodes 11: there are 10 clients"):
        local.run(config("fedavg"), 11, tmp_path, False, print)
    assert not list(tmp_path.iterdir())
