"""What leaves a client and what it costs, against counts made by hand."""

import json
from functools import cache
from importlib.resources import files

import pytest

from fedskew import ledger
from fedskew.ledger import CLASSES, LABELS, WIDTH, Cost, cost, leaves, slots
from fedskew.methods import compose, preset

LAYER = WIDTH * WIDTH + WIDTH
HEAD = WIDTH * CLASSES + CLASSES
WHOLE = 2 * LAYER + HEAD
BINARY = 2 * LAYER + WIDTH + 1
PROTOTYPES = CLASSES * WIDTH + CLASSES
CRITIC = LAYER + WIDTH + 1


@cache
def of(name: str) -> Cost:
    return cost(compose(name))


@pytest.mark.parametrize(
    ("name", "down", "up", "state"),
    [
        ("fedavg", WHOLE, WHOLE, 0),
        ("local", 0, 0, WHOLE),
        ("scaffold", 2 * WHOLE, 2 * WHOLE, WHOLE),
        ("fednova", WHOLE, WHOLE + 1, 0),
        ("afl", WHOLE, WHOLE + 1, 0),
        ("qffl", WHOLE, WHOLE + 1, 0),
        ("qfedavg", WHOLE, WHOLE + 1, 0),
        ("fedova", CLASSES * BINARY, LABELS * BINARY, 0),
        ("fedrep", 2 * LAYER, 2 * LAYER, HEAD),
        ("lg-fedavg", LAYER + HEAD, LAYER + HEAD, LAYER),
        ("lg-head", HEAD, HEAD, 2 * LAYER),
        ("fedrod", WHOLE, WHOLE, HEAD),
        ("map", WHOLE, WHOLE, WHOLE + 1),
        ("moon", WHOLE, WHOLE, WHOLE + 1),
        ("ditto", WHOLE, WHOLE, WHOLE),
        ("feddml", WHOLE, WHOLE, WHOLE),
        ("grpfed", WHOLE, WHOLE + 1, 2 * LAYER + CRITIC),
        ("fedproto", PROTOTYPES, PROTOTYPES, WHOLE),
        ("fedrep+scaffold", 4 * LAYER, 4 * LAYER, HEAD + WHOLE),
    ],
)
def test_numbers_sent_and_kept(name: str, down: int, up: int, state: int) -> None:
    assert of(name) == pytest.approx((down / WHOLE, up / WHOLE, state / WHOLE))


def test_words() -> None:
    assert leaves(preset("fedavg")) == "all parameters, its number of examples"
    assert leaves(preset("map")) == "all parameters"
    assert leaves(preset("local")) == "nothing"
    assert leaves(preset("fedova")) == "parameters of its classes' networks, which classes it holds"
    assert "mean training loss" in leaves(preset("grpfed"))
    assert "each class" in leaves(preset("fedproto"))
    assert slots(preset("fedavg")) == "none"
    assert (
        slots(compose("fedlc+scaffold"))
        == "aggregate Mean, objective CalibratedSoftmax, term ControlVariates"
    )


def test_the_stored_table_is_what_the_messages_say() -> None:
    stored = json.loads((files("fedskew") / "ledger.json").read_text(encoding="utf-8"))
    found = [row._asdict() for row in ledger.rows()]
    assert [row["name"] for row in stored] == [row["name"] for row in found]
    for old, new in zip(stored, found, strict=True):
        numbers = {key: new.pop(key) for key in ("down", "up", "state")}
        assert {key: old.pop(key) for key in numbers} == pytest.approx(numbers)
        assert old == new
