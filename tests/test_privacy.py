"""Clipping and noise against plain loops, the account against its library, and the same bits everywhere."""

from __future__ import annotations

import importlib.util
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from references import world
from references.runs import PRESETS, algorithm

pytest.importorskip("opacus", reason="the extra `privacy` is not installed")
pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from flower_nodes import DirectPost, config, load
from opacus.accountants import RDPAccountant

from fedskew import build
from fedskew.algorithm import Algorithm
from fedskew.config import Config
from fedskew.engines.feed import Feed
from fedskew.engines.private import Private
from fedskew.engines.serial import Serial
from fedskew.engines.vectorised import Vectorised
from fedskew.errors import ConfigError
from fedskew.experiment import Session
from fedskew.flower import serve
from fedskew.gate import form
from fedskew.parts.aggregates import Mean
from fedskew.privacy import Privacy, moved
from fedskew.store import checkpoint, codec, disk
from fedskew.store.reader import RunReader
from fedskew.tree import State, Tree, zeros
from fedskew.values import Cohort, Reply

CENTRAL, LOCAL = Privacy("central", clip=0.5, noise=1.3), Privacy("local", clip=0.5, noise=1.3)
IDS = (0, 3, 4, 7)
ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk."""
    monkeypatch.setattr(disk, "fsync", lambda descriptor: None)
    monkeypatch.setattr(disk, "sync_folder", lambda path: None)


def bound(name: str = "fedavg", dtype: torch.dtype = torch.float32) -> Algorithm:
    made = algorithm(PRESETS[name], dtype=dtype)
    return replace(made, method=replace(made.method, aggregate=Mean("uniform")))


def numbers(entries: Tree) -> list[float]:
    """All entries in one list."""
    return [float(x) for value in entries.values() for x in value.double().flatten()]


def clipped(sent: list[float], before: list[float], limit: float) -> list[float]:
    """The change of a client, at most so long: the rule, number by number."""
    change = [y - x for x, y in zip(before, sent, strict=True)]
    length = math.sqrt(math.fsum(c * c for c in change))
    return [c * limit / length if length > limit else c for c in change]


# Clipping


@pytest.mark.parametrize("scale", [0.01, 0.999, 1.001, 50.0])
def test_changes_are_as_long_as_allowed(scale: float) -> None:
    draw = random.Random(1)
    before = {"a": torch.tensor([[draw.gauss(0, 1) for _ in range(3)] for _ in range(4)]).double()}
    before["b"] = torch.tensor([draw.gauss(0, 1)]).double()
    way = {
        name: torch.tensor([draw.gauss(0, 1) for _ in range(value.numel())]) for name, value in before.items()
    }
    length = math.sqrt(sum(x * x for x in numbers(way)))
    sent = {n: v + way[n].reshape(v.shape).double() * scale * 0.5 / length for n, v in before.items()}
    found = numbers(moved(sent, before, 0.5, zeros(before)))
    expected = [
        x + c for x, c in zip(numbers(before), clipped(numbers(sent), numbers(before), 0.5), strict=True)
    ]
    assert found == pytest.approx(expected, abs=1e-12)
    gone = math.sqrt(math.fsum((y - x) ** 2 for x, y in zip(numbers(before), found, strict=True)))
    assert gone == pytest.approx(0.5 * min(scale, 1.0), rel=1e-9)


def test_a_short_change_passes_bit_for_bit() -> None:
    before = {"a": torch.randn(50, generator=torch.Generator().manual_seed(1))}
    sent = {"a": before["a"] + 1e-3}
    assert torch.equal(moved(sent, before, 1.0, zeros(before))["a"], sent["a"])


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e38])
def test_a_broken_change_counts_as_none(bad: float) -> None:
    before = {"a": torch.ones(3)}
    found = moved({"a": torch.tensor([bad, 1.0, 1.0])}, before, 1.0, zeros(before))["a"]
    assert bool(found.isfinite().all())
    assert float((found.double() - 1).norm()) <= 1.0 + 1e-6


# Noise


def stacked(before: Tree, count: int) -> Reply:
    """Replies of clients that have changed nothing."""
    shared = {name: value.expand(count, *value.shape).clone() for name, value in before.items()}
    ones = torch.ones(count, dtype=torch.float64)
    return Reply(shared, {}, ones, ones, ones, ones)


@pytest.mark.parametrize("count", [1, 5])
def test_the_servers_noise_is_calibrated(count: int) -> None:
    before = {"a": torch.zeros(200, 100, dtype=torch.float64), "b": torch.zeros(10_000, dtype=torch.float64)}
    replies = CENTRAL.released(stacked(before, count), before, Cohort(tuple(range(count)), 9, 4), seed=1)
    mean = numbers({name: value.mean(0) for name, value in replies.shared.items()})
    expected = 1.3 * 0.5 / count  # noise x sensitivity of a mean of so many
    assert math.sqrt(math.fsum(x * x for x in mean) / len(mean)) == pytest.approx(expected, rel=0.02)
    assert abs(math.fsum(mean) / len(mean)) < 4 * expected / math.sqrt(len(mean))


def test_a_clients_noise_covers_any_other_change_of_its_own() -> None:
    before = {"a": torch.zeros(30_000, dtype=torch.float64)}
    one = torch.tensor(7.0, dtype=torch.float64)
    reply = LOCAL.sent(Reply(before, {}, one, one, one, one), before, 1, 4, 2)
    found = numbers(reply.shared)
    assert math.sqrt(math.fsum(x * x for x in found) / len(found)) == pytest.approx(1.3 * 2 * 0.5, rel=0.02)
    assert [float(getattr(reply, name)) for name in ("samples", "steps", "effective_steps", "loss")] == [
        1,
        0,
        0,
        0,
    ]


def test_noise_is_new_for_every_client_and_round_and_the_same_again() -> None:
    before = {"a": torch.zeros(8, dtype=torch.float64)}
    reply = Reply(before, {}, *[torch.tensor(1.0)] * 4)

    def drawn(privacy: Privacy, round: int, client: int, seed: int = 1) -> tuple[float, ...]:
        return tuple(numbers(privacy.sent(reply, before, seed, round, client).shared))

    keys = [(0, 0, 1), (0, 1, 1), (1, 0, 1), (0, 0, 2)]
    assert len({drawn(LOCAL, *key) for key in keys}) == len(keys)
    assert drawn(LOCAL, 0, 0) == drawn(LOCAL, 0, 0)
    hidden = replace(LOCAL, secret=True)
    assert drawn(hidden, 0, 0) != drawn(hidden, 0, 0)


@pytest.mark.parametrize("privacy", [CENTRAL, LOCAL], ids=lambda privacy: privacy.kind)
def test_a_round_against_plain_loops(privacy: Privacy) -> None:
    made = bound(dtype=torch.float64)
    server = made.init()
    message = made.message(server, 0)
    plain, _ = Serial(made, world.federation(), world.TRAINING).exchange(message, IDS, 0)
    engine = Private(Serial(made, world.federation(), world.TRAINING), made, privacy)
    replies, cohort = engine.exchange(message, IDS, 0)
    assert plain is not None
    assert replies is not None
    found = numbers(made.step(server, replies, cohort)["shared"])
    before = numbers(server["shared"])
    changes = [
        clipped(numbers({n: v[k] for n, v in plain.shared.items()}), before, 0.5) for k in range(len(IDS))
    ]
    mean = [x + sum(column) / len(IDS) for x, column in zip(before, zip(*changes, strict=True), strict=True)]
    deviation = 1.3 * 0.5 / 4 if privacy.kind == "central" else 1.3 * 2 * 0.5 / 2  # of 4 replies, each noisy
    rest = [(y - x) / deviation for x, y in zip(mean, found, strict=True)]
    assert 0.7 < math.sqrt(sum(x * x for x in rest) / len(rest)) < 1.3


# The account


@pytest.mark.parametrize(("noise", "times"), [(1.0, 1), (1.0, 10), (0.6, 3), (4.0, 200)])
def test_epsilon_is_the_librarys_and_the_theorys(noise: float, times: int) -> None:
    accountant = RDPAccountant()
    for _ in range(times):
        accountant.step(noise_multiplier=noise, sample_rate=1.0)
    found = Privacy("central", noise=noise).epsilon(times)
    assert found == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
    theory = min(
        times * a / (2 * noise**2) + math.log((a - 1) / a) - (math.log(1e-5) + math.log(a)) / (a - 1)
        for a in orders
    )
    assert found == pytest.approx(theory, rel=1e-6)


# Which methods


def test_what_is_private_sends_parameters_and_nothing_else() -> None:
    allowed = []
    for name, method in PRESETS.items():
        made = algorithm(method)
        if isinstance(made.method.aggregate, Mean):
            made = replace(made, method=replace(made.method, aggregate=Mean("uniform")))
        try:
            CENTRAL.check(made)
        except ConfigError:
            continue
        allowed.append(name)
        assert not [place for place in form(made, (1, 3, 3)).slots if place.startswith("extra/")]
    assert {"fedavg", "fedprox", "fedlc", "fedrs", "map", "ditto", "fedadam", "feddyn", "fedper"} <= {
        *allowed
    }
    assert not {"scaffold", "fedova", "fedproto", "afl", "qffl", "grpfed", "fednova", "local"} & {*allowed}


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("fedavg", {}, "method.weight = 'uniform'"),
        ("scaffold", {}, "ControlVariates reveals"),
        ("fedova", {}, "which classes it holds"),
        ("local", {}, "shares no parameters"),
        ("map", {"privacy.kind": "local", "evaluate.personal": 1}, "evaluate.personal = 0"),
    ],
)
def test_what_noise_does_not_cover_is_refused(method: str, settings: dict[str, object], words: str) -> None:
    chosen = config(method, **{"privacy.kind": "central", **settings})
    with pytest.raises(ConfigError, match=words):
        build.experiment(chosen).algorithm(load(chosen, None), 0)


def test_statistics_of_batch_norm_are_refused() -> None:
    made = algorithm(PRESETS["map"], network="batch-norm")
    with pytest.raises(ConfigError, match="batch-norm"):
        CENTRAL.check(made)


# Everywhere the same


def simulated(settings: Config) -> tuple[State, list[dict[str, object]]]:
    experiment, federation = build.experiment(settings), load(settings, None)
    made = experiment.algorithm(federation, settings.seeds[0])
    feed = Feed.of(made, federation, experiment.training)
    assert experiment.privacy is not None
    engine = Private(Serial(made, federation, experiment.training), made, experiment.privacy)
    steps = list(Session(experiment, feed, engine).rounds())
    return steps[-1].round.server, [step.record for step in steps]


@pytest.mark.parametrize("kind", ["central", "local"])
@pytest.mark.parametrize("method", ["fedavg", "map"])
def test_flower_gives_the_simulators_bits(method: str, kind: str, tmp_path: Path) -> None:
    settings = config(method, **{"privacy.kind": kind, "method.weight": "uniform", "privacy.noise": 0.8})
    serve.serve(settings, tmp_path / "run", load, DirectPost(settings, tmp_path), resume=False)
    server, records = simulated(settings)
    assert codec.encode(checkpoint.load(tmp_path / "run").server) == codec.encode(server)
    spent = [record["privacy.epsilon"] for record in RunReader(tmp_path / "run").metrics()]
    assert spent == [record["privacy.epsilon"] for record in records]
    drawn = [world.federation().participants(world.SEED, t, 0.5) for t in range(3)]
    most = [max(sum(k in ids for ids in drawn[: t + 1]) for k in range(8)) for t in range(3)]
    assert spent == pytest.approx([Privacy("central", noise=0.8).epsilon(times) for times in most])
    assert ("NaN" in json.dumps(records[-1]["train.loss"])) == (kind == "local")


def test_the_vectorised_engine_adds_the_same_noise() -> None:
    made = bound(dtype=torch.float64)
    message = made.message(made.init(), 0)
    sides = [
        Private(kind(made, world.federation(), world.TRAINING), made, LOCAL).exchange(message, IDS, 0)[0]
        for kind in (Serial, Vectorised)
    ]
    assert sides[0] is not None
    assert sides[1] is not None
    assert numbers(sides[0].shared) == pytest.approx(numbers(sides[1].shared), abs=1e-9)


def test_without_privacy_nothing_changes() -> None:
    assert build.privacy(config("fedavg")) is None


# The ledger


@pytest.mark.slow
def test_the_ledger_is_of_today() -> None:
    found = importlib.util.spec_from_file_location("ledger_tool", ROOT / "tools" / "privacy.py")
    assert found is not None
    assert found.loader is not None
    tool = importlib.util.module_from_spec(found)
    found.loader.exec_module(tool)
    assert tool.text() == (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")


def test_the_ledger_names_every_method_and_what_it_sends() -> None:
    stored = json.loads((ROOT / "fedskew" / "ledger.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    for entry in stored:
        assert f"| `{entry['name']}` | {entry['leaves']} |" in page
