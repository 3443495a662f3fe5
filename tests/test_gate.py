"""A bad reply is refused with a reason, and the round is as if its client had not taken part."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from bad_replies import BAD, CASES, entry, faulty, number
from references import world
from references.runs import PRESETS, algorithm

from fedskew.algorithm import Algorithm
from fedskew.engines.engine import Engine
from fedskew.engines.pool import Pool
from fedskew.engines.serial import Serial
from fedskew.engines.vectorised import Vectorised
from fedskew.errors import ConfigError, DivergedError
from fedskew.fit import fit
from fedskew.gate import Gate, Limits
from fedskew.store import codec

ASKED = (0, BAD, 4, 7)
GOOD = tuple(client for client in ASKED if client != BAD)
SHAPE = (1, 3, 3)
USUAL = Limits()
ENGINES = {"serial": Serial, "vectorised": Vectorised, "pool": Pool}


def gate(bound: Algorithm, limits: Limits = USUAL) -> Gate:
    return Gate.of(bound, SHAPE, limits)


def first_round(
    bound: Algorithm, engine: Engine, ids: tuple[int, ...]
) -> tuple[bytes, tuple[int, ...], list[str]]:
    """The server after one round, who was in the average, and the reasons for which others were not."""
    server = bound.init()
    replies, cohort = engine.exchange(bound.message(server, 0), ids, 0)
    assert replies is not None
    reasons = [refusal.reason for refusal in cohort.refused]
    return codec.encode(bound.step(server, replies, cohort)), cohort.ids, reasons


@pytest.mark.parametrize(("method", "case"), CASES)
def test_the_round_goes_on_without_the_bad_reply(method: str, case: str) -> None:
    bound = algorithm(PRESETS[method], dtype=torch.float32)
    spoilt = faulty(bound, CASES[method, case])
    engine = Serial(spoilt, world.federation(), world.TRAINING, gate(bound))
    server, ids, reasons = first_round(bound, engine, ASKED)
    expected, *_ = first_round(bound, Serial(bound, world.federation(), world.TRAINING), GOOD)
    assert server == expected
    assert ids == GOOD
    assert len(reasons) == 1
    assert BAD not in engine.kept
    assert set(engine.kept) == set(GOOD)


@pytest.mark.parametrize("name", ["vectorised", "pool"])
def test_every_engine_has_the_gate(name: str) -> None:
    bound = algorithm(PRESETS["scaffold"], dtype=torch.float32)
    poor = Gate.of(bound, SHAPE, Limits(largest=12.5))  # clients 3 and others with 13 examples and more
    settings = {"workers": 1} if name == "pool" else {}
    engine = ENGINES[name](bound, world.federation(), world.TRAINING, **settings, gate=poor)
    try:
        _, ids, reasons = first_round(bound, engine, ASKED)
        assert ids == GOOD
        assert reasons == ["samples is larger than 12.5"]
        assert set(engine.kept) == set(GOOD)
    finally:
        engine.close()


@pytest.mark.parametrize("method", PRESETS)
@pytest.mark.parametrize(("engine", "dtype"), [("serial", torch.float32), ("vectorised", torch.float64)])
def test_good_replies_of_every_method_pass(method: str, engine: str, dtype: torch.dtype) -> None:
    bound = algorithm(PRESETS[method], dtype=dtype)
    machine = ENGINES[engine](bound, world.federation(), world.TRAINING, gate=gate(bound))
    asked = (0, world.SINGLE_LABEL, 6)
    assert first_round(bound, machine, asked)[1:] == (asked, [])


def test_batch_norm_passes() -> None:
    bound = algorithm(PRESETS["map"], network="batch-norm")
    engine = Serial(bound, world.federation(), world.TRAINING, gate(bound))
    assert first_round(bound, engine, ASKED)[2] == []


def test_the_first_of_two_answers_counts_and_strangers_do_not() -> None:
    bound = algorithm(PRESETS["fedavg"])
    message = bound.message(bound.init(), 0)
    feed = Serial(bound, world.federation(), world.TRAINING).feed
    reply, _ = bound.local(message, bound.fresh(0), feed.client(0, 0))
    admitted, refused = gate(bound).admit([(0, reply), (0, reply), (5, reply)], (0, 1), message)
    assert list(admitted) == [0]
    assert refused == ((0, "has answered already"), (5, "was not asked"))


def test_replies_come_in_the_order_asked() -> None:
    bound = algorithm(PRESETS["fedavg"])
    message = bound.message(bound.init(), 0)
    feed = Serial(bound, world.federation(), world.TRAINING).feed
    answers = [(k, bound.local(message, bound.fresh(k), feed.client(0, k))[0]) for k in (7, 0, 4)]
    assert list(gate(bound).admit(answers, (0, 4, 7), message).replies) == [0, 4, 7]


def test_too_few_good_replies_keep_the_model() -> None:
    bound = algorithm(PRESETS["fedavg"])
    spoilt = faulty(bound, entry(torch.nan))
    engine = Serial(spoilt, world.federation(), world.TRAINING, gate(bound, Limits(minimum=4)))
    replies, cohort = engine.exchange(bound.message(bound.init(), 0), ASKED, 0)
    assert replies is None
    assert cohort.ids == ()
    assert [client for client, _ in cohort.refused] == [BAD, *GOOD]
    assert engine.kept == {}


def test_the_norm_is_of_the_change() -> None:
    bound = algorithm(PRESETS["fedavg"])
    spoilt = faulty(bound, lambda reply: reply._replace(shared={n: v + 1 for n, v in reply.shared.items()}))
    size = sum(value.numel() for value in bound.initial.values()) ** 0.5
    for limit, refused in ((size / 2, 1), (size * 2, 0)):
        engine = Serial(spoilt, world.federation(), world.TRAINING, gate(bound, Limits(norm=limit)))
        assert len(first_round(bound, engine, ASKED)[2]) == refused


@pytest.mark.parametrize(
    ("method", "part", "entry"), [("map", "Inherit", "model/"), ("grpfed", "GlobalRegularised", "")]
)
def test_a_loss_of_any_phase_that_is_no_number_ends_the_run(method: str, part: str, entry: str) -> None:
    bound, federation = algorithm(PRESETS[method]), world.federation()
    engine = Serial(bound, federation, world.TRAINING)
    steps = fit(bound, engine, federation, 3, 1.0)
    next(steps)
    for client in engine.kept:
        kept = engine.kept[client]
        spoilt = {n: v * torch.nan if n.startswith(entry) and v.ndim else v for n, v in kept[part].items()}
        engine.kept[client] = {**kept, part: spoilt}
    with pytest.raises(DivergedError):
        next(steps)


def test_counters_of_batch_norm_are_no_change() -> None:
    bound = algorithm(PRESETS["fedavg"], network="batch-norm")
    message = bound.message(bound.init(), 0)
    reply, _ = bound.local(
        message, bound.fresh(0), Serial(bound, world.federation(), world.TRAINING).feed.client(0, 0)
    )
    moved = [v - bound.initial[n] for n, v in reply.shared.items() if v.is_floating_point()]
    length = float(torch.cat([change.flatten() for change in moved]).norm())
    assert gate(bound, Limits(norm=1.01 * length)).wrong(reply, message) == ""
    assert "a change of norm" in gate(bound, Limits(norm=0.99 * length)).wrong(reply, message)


@pytest.mark.parametrize("settings", [{"norm": 0.0}, {"largest": -1.0}, {"minimum": 0}])
def test_limits_that_mean_nothing(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"Limits\."):
        Limits(**settings)


@pytest.mark.parametrize("loss", [torch.nan, 2e6])
@pytest.mark.parametrize("gated", [False, True])
def test_without_a_gate_a_client_that_diverges_ends_the_run(gated: bool, loss: float) -> None:
    bound = faulty(replace(algorithm(PRESETS["fedavg"])), number("loss", loss))
    engine = Serial(bound, world.federation(), world.TRAINING, gate(bound) if gated else None)
    rounds = fit(bound, engine, world.federation(), 2, 1.0)
    if gated:
        assert [[client for client, _ in step.cohort.refused] for step in rounds] == [[BAD], [BAD]]
    else:
        with pytest.raises(DivergedError):
            next(rounds)
