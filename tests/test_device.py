"""Clients on a device: the same bits through the detour, and not one tensor in the wrong place.

There is no graphics card here. torch's meta device stands in for one: its tensors have a shape and no
numbers, and do not mix with those in main memory.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from command import fedskew
from references import world
from references.runs import PRESETS, advance, algorithm

from fedskew.algorithm import Algorithm
from fedskew.engines.choose import Choice, resolve
from fedskew.engines.device import OnDevice
from fedskew.engines.feed import Feed
from fedskew.engines.serial import Serial
from fedskew.engines.vectorised import Vectorised
from fedskew.errors import ConfigError

Guest = TypeVar("Guest", bound=OnDevice)
SIDES = world.federation(), world.TRAINING


class Imagined(OnDevice):
    """Computes on torch's meta device, from which no number comes back."""

    def home(self, value: Any) -> Any:
        return value


def guest(kind: type[Guest], method: str, device: str) -> Guest:
    bound = algorithm(PRESETS[method])
    same = {field.name: getattr(bound, field.name) for field in fields(Algorithm)}
    return kind(**same, device=device)


@pytest.mark.parametrize("method", PRESETS)
def test_the_detour_changes_no_bit(method: str) -> None:
    plain, sent = algorithm(PRESETS[method]), guest(OnDevice, method, "cpu")
    servers = [advance(one, Serial(one, *SIDES), one.init(), range(2))[0] for one in (plain, sent)]
    for part, entries in servers[0].items():
        for name, value in entries.items():
            assert torch.equal(value, servers[1][part][name]), (part, name)


@pytest.mark.parametrize("machine", [Serial, Vectorised])
@pytest.mark.parametrize("method", PRESETS)
def test_clients_compute_on_the_device_alone(method: str, machine: type[Serial | Vectorised]) -> None:
    bound = guest(Imagined, method, "meta")
    engine = machine(bound, *SIDES)
    replies, _ = engine.exchange(bound.message(bound.init(), 0), (0, 1, 2), 0)
    assert replies is not None
    states = [value for own in engine.kept.values() for tree in own.values() for value in tree.values()]
    logits = bound.predict(bound.overall(bound.init()), engine.feed.x[:5])
    found = (*replies.shared.values(), *replies[2:], *states, logits)
    assert {value.device.type for value in found} == {"meta"}


def test_adapting_happens_on_the_device() -> None:
    bound = guest(Imagined, "fedper", "meta")
    feed = Feed.of(bound, *SIDES)
    found = bound.adapted(bound.init(), None, feed.idle(0), None)
    assert {value.device.type for value in found.values()} == {"meta"}


def test_auto_tries_blocks_and_no_processes() -> None:
    found = resolve(Choice(device="meta"), bound := guest(Imagined, "fedavg", "meta"), Feed.of(bound, *SIDES))
    assert found.name in ("serial", "vectorised")
    assert (found.backend, found.device) == ("autograd", "meta")


@pytest.mark.parametrize("setting", [{"name": "pool"}, {"name": "ray"}, {"backend": "native"}])
def test_what_a_device_cannot_do_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"engine.device = 'cuda'.*{next(iter(setting.values()))}"):
        Choice(**setting, device="cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_a_card_that_is_not_there_is_a_user_error(tmp_path: Path) -> None:
    file, out = tmp_path / "a.toml", tmp_path / "runs"
    file.write_text('[engine]\ndevice = "cuda"\n[split]\nscheme = "labels"\nper_client = 2\nclients = 10\n')
    done = fedskew("run", str(file), "--out", str(out))
    assert done.code == 2
    assert "engine.device = 'cuda': torch cannot use it here" in " ".join(done.err.split())
    assert not out.exists()
