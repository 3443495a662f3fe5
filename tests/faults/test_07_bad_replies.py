"""Row 7: bad replies are refused with a reason, and the round is as if their client had not taken part."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import pytest
import torch
from bad_replies import BAD, CASES
from counting import Tally, part_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from references import world
from references.runs import PRESETS, algorithm
from torch import Tensor

from fedskew.algorithm import Algorithm
from fedskew.engines.engine import gather
from fedskew.engines.serial import Serial
from fedskew.gate import NUMBERS, Gate, Limits, places
from fedskew.store import codec
from fedskew.tree import State
from fedskew.values import Cohort, Reply

ASKED = (0, BAD, 4, 7)
SHAPE = (1, 3, 3)
STRANGER = 5


class World(NamedTuple):
    """A round of one preset: what all clients answer, and the server if the bad one is not there."""

    bound: Algorithm
    gate: Gate
    message: State
    replies: dict[int, Reply]
    expected: bytes


@cache
def one_round(method: str) -> World:
    bound = algorithm(PRESETS[method], dtype=torch.float32)
    feed = Serial(bound, world.federation(), world.TRAINING).feed
    message = bound.message(bound.init(), 0)
    replies = {k: bound.local(message, bound.fresh(k), feed.client(0, k))[0] for k in (*ASKED, STRANGER)}
    good = {client: replies[client] for client in ASKED if client != BAD}
    made = World(bound, Gate.of(bound, SHAPE, Limits()), message, replies, b"")
    return made._replace(expected=after(made, good))


def after(made: World, answers: dict[int, Reply]) -> bytes:
    asked = Cohort(ASKED, made.bound.population, 0)
    stacked, cohort = gather(answers, made.message, asked, made.gate)
    assert stacked is not None
    assert [refusal.client for refusal in cohort.refused] == [k for k in answers if k not in cohort.ids]
    return codec.encode(made.bound.step(made.bound.init(), stacked, cohort))


def put(reply: Reply, place: str, value: Tensor | None) -> Reply:
    """The reply with another tensor in one place, or none."""
    if place in NUMBERS:
        return reply._replace(**{place: torch.empty(0) if value is None else value})
    kind, rest = place.split("/", 1)
    if kind == "shared":
        left = {name: old for name, old in reply.shared.items() if name != rest}
        return reply._replace(shared=left if value is None else {**left, rest: value})
    part, name = rest.split("/", 1)
    left = {key: old for key, old in reply.extra[part].items() if key != name}
    own = left if value is None else {**left, name: value}
    return reply._replace(extra={**reply.extra, part: own})


def wrong_number(draw: st.DrawFn, place: str, value: Tensor) -> Tensor:
    """The tensor with one entry that no good client sends."""
    bad = [torch.nan, torch.inf, -torch.inf, 1e30, -1e30]
    if place == "samples":
        bad += [-1.0, 0.0, 0.5, 1e18, -torch.inf]
    changed = value.clone() if value.is_floating_point() else value.double()
    changed.view(-1)[draw(st.integers(0, value.numel() - 1))] = draw(st.sampled_from(bad))
    return changed


def wrong_shape(draw: st.DrawFn, value: Tensor) -> Tensor:
    ways = [value[None], value.flatten()[:0], torch.cat([value.flatten(), value.flatten()[:1]])]
    if value.ndim > 1:
        ways += [value.flatten(), value[:1], value[..., :-1], value.transpose(0, 1)]
    return draw(st.sampled_from([way for way in ways if way.shape != value.shape]))


def wrong_type(draw: st.DrawFn, value: Tensor) -> Tensor:
    kinds = [torch.float16, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.complex64]
    return value.to(draw(st.sampled_from([kind for kind in kinds if kind != value.dtype])))


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, Reply]:
    """A preset and a reply of its bad client that no server may use."""
    method = draw(st.sampled_from(sorted(PRESETS)))
    reply = one_round(method).replies[BAD]
    place = draw(st.sampled_from([name for name, value in places(reply) if value.numel()]))
    value = dict(places(reply))[place]
    match draw(st.sampled_from(["number", "shape", "type", "missing", "unknown", "part"])):
        case "number":
            return method, put(reply, place, wrong_number(draw, place, value))
        case "shape":
            return method, put(reply, place, wrong_shape(draw, value))
        case "type":
            return method, put(reply, place, wrong_type(draw, value))
        case "missing":
            return method, put(reply, place, None)
        case "unknown":
            return method, reply._replace(shared={**reply.shared, draw(st.text()) + "?": value})
        case _:
            return method, reply._replace(extra={**reply.extra, "Stranger": {"x": value}})


def test_the_fixed_ones(tally: Tally) -> None:
    for (method, _), spoil in CASES.items():
        with tally.case():
            made = one_round(method)
            answers = {client: made.replies[client] for client in ASKED}
            assert after(made, {**answers, BAD: spoil(made.replies[BAD])}) == made.expected


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_generated_ones(count: int, tally: Tally) -> None:
    @settings(
        max_examples=part_of(count),
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(spoilt())
    def refused(case: tuple[str, Reply]) -> None:
        method, reply = case
        with tally.case():
            made = one_round(method)
            answers = {client: made.replies[client] for client in ASKED}
            assert after(made, {**answers, BAD: reply}) == made.expected

    refused()


def test_strangers_and_second_answers(tally: Tally) -> None:
    for method in PRESETS:
        made = one_round(method)
        good = [(client, made.replies[client]) for client in ASKED]
        for extra, reason in ((STRANGER, "was not asked"), (0, "has answered already")):
            with tally.case():
                answers = [*good, (extra, made.replies[extra])]
                admitted, turned_away = made.gate.admit(answers, ASKED, made.message)
                assert list(admitted) == list(ASKED)
                assert turned_away == ((extra, reason),)
