"""Writes the ledger in docs/privacy.md from the methods themselves: python tools/privacy.py."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from fedskew import build
from fedskew.algorithm import Algorithm
from fedskew.catalogue import METHODS
from fedskew.config import parse
from fedskew.data.federation import Federation
from fedskew.engines.serial import Serial
from fedskew.errors import ConfigError
from fedskew.flower.site import simulated
from fedskew.parts.aggregates import Mean
from fedskew.privacy import Privacy

PAGE = Path(__file__).parent.parent / "docs" / "privacy.md"
BEGIN, END = "<!-- ledger -->", "<!-- end of the ledger -->"
LABELS, CLIENTS = 2, 10
HEAD = "| method | what leaves a client | classes named rightly | differential privacy |\n|---|---|---|---|\n"


def text() -> str:
    """The page with today's ledger."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n{HEAD}{''.join(map(row, METHODS))}{END}{rest.split(END)[1]}"


def row(name: str) -> str:
    """One method."""
    leaves = {
        entry["name"]: entry["leaves"] for entry in json.loads((files("fedskew") / "ledger.json").read_text())
    }
    config = parse(
        {
            "method": {"preset": name},
            "split": {"scheme": "labels", "clients": CLIENTS, "per_client": LABELS},
            "model": {"name": "mlp", "hidden": [16]},
            "train": {"epochs": 1},
            "evaluate": {"personal": 0},
        },
        "the ledger",
    )
    experiment, federation = build.experiment(config), simulated(config, None)
    algorithm = experiment.algorithm(federation, 0)
    engine = Serial(algorithm, federation, experiment.training)
    return f"| `{name}` | {leaves[name]} | {guessed(algorithm, federation, engine)} | {protection(algorithm)} |\n"


def guessed(algorithm: Algorithm, federation: Federation, engine: Serial) -> str:
    """How many of the clients' classes their first uploads give away: the outputs whose biases rose or moved most."""
    if algorithm.method.share.reveals or "each class" in " ".join(p.reveals for p in algorithm.method.parts):
        return "told"
    bias = next(
        (n for n in reversed(algorithm.shared) if n in algorithm.model.head and n.endswith("bias")), None
    )
    if bias is None:
        return "no head is sent"
    server = algorithm.init()
    replies, _ = engine.exchange(algorithm.message(server, 0), range(CLIENTS), 0)
    assert replies is not None  # there is no gate
    change, held = replies.shared[bias] - server["shared"][bias], federation.counts[:CLIENTS] > 0
    rules = (change, change.abs())  # whoever guesses knows the method, and takes the better one
    right = [held.gather(1, rule.topk(LABELS, dim=1).indices).double().mean() for rule in rules]
    return f"{100 * float(max(right)):.0f} %"


def protection(algorithm: Algorithm) -> str:
    """Whether clipping and noise can be used, or what stands against it."""
    method, words = algorithm.method, "yes"
    if isinstance(method.aggregate, Mean) and method.aggregate.weighs:
        algorithm, words = (
            replace(algorithm, method=replace(method, aggregate=Mean("uniform"))),
            "uniform weights",
        )
    try:
        Privacy("central").check(algorithm)
    except ConfigError as error:
        return "no: " + str(error).removeprefix("privacy: ").split(",")[0].rstrip(".")
    return words


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
