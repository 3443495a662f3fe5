"""Where the papers say two methods coincide, they do; a step beside the limit they do not."""

from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from references import world
from references.runs import PRESETS, SOLVER, Finished, finished, gap
from references.tables import changed, joined

from fedskew.method import Method
from fedskew.step import SGD
from fedskew.tree import Tree

EXACT = 0.0
ROUNDED = 1e-12
FAR = 1e-6
PLAIN = SGD(0.1, weight_decay=0.01)
ALL_CLASSES = (next(k for k, row in enumerate(world.COUNTS) if min(row) > 0),)
EQUAL_STEPS = tuple(k for k, row in enumerate(world.COUNTS) if 5 < sum(row) <= 10)
UNEQUAL_STEPS = (0, 1, 3, 6)

preset = SimpleNamespace(**PRESETS)
fedavg, local = preset.fedavg, preset.local
uniform = changed("fedavg", "Mean", weight="uniform")
fedadam = {"lr": 1e9, "b1": 0.0, "tau": 1e9}


class Case(NamedTuple):
    """A method and what it is run with."""

    method: Method
    ids: tuple[int, ...] | None = None  # who takes part; None: as drawn
    rounds: int = world.ROUNDS
    solver: SGD = SOLVER

    def run(self) -> Finished:
        return finished(self.method, ids=self.ids, rounds=self.rounds, solver=self.solver)


class Limit(NamedTuple):
    """`case` coincides with `equals`; `otherwise` does not coincide with it."""

    case: Case
    equals: Method
    otherwise: Case
    near: float = ROUNDED
    personal: bool = False  # compare the clients' models, not the server's


def same(
    method: Method, equals: Method, otherwise: Method, near: float = ROUNDED, personal: bool = False
) -> Limit:
    return Limit(Case(method), equals, Case(otherwise), near, personal)


LIMITS = {
    "FedProx, mu = 0": same(changed("fedprox", "Proximal", mu=0.0), fedavg, preset.fedprox, EXACT),
    "FedRS, alpha = 1": same(changed("fedrs", "RestrictedSoftmax", alpha=1.0), fedavg, preset.fedrs, EXACT),
    "FedLC, tau = 0, no class missing": Limit(
        Case(preset.masked_softmax, ALL_CLASSES), fedavg, Case(preset.fedlc, ALL_CLASSES)
    ),
    "FedLC, tau = 0, classes missing": Limit(
        Case(preset.masked_softmax, ALL_CLASSES), fedavg, Case(preset.masked_softmax, (0,))
    ),
    "FedLC, a floor under missing counts": same(
        changed("fedlc", "CalibratedSoftmax", missing="clip"),
        preset.fedlc,
        preset.masked_softmax,
        1e-9,
    ),
    "FedRoD, gamma = 0, no class missing": Limit(
        Case(changed("fedrod", "BalancedSoftmax", gamma=0.0), ALL_CLASSES),
        fedavg,
        Case(preset.fedrod, ALL_CLASSES),
    ),
    "FedPHP, weight = 0": same(changed("fedphp", "Inherit", weight=0.0), fedavg, preset.fedphp),
    "FedPHP, mu = 0": same(
        changed("fedphp", "Inherit", mu=0.0, weight=0.0), fedavg, preset.fedphp, personal=True
    ),
    "MOON, weight = 0": same(changed("moon", "Contrast", weight=0.0), fedavg, preset.moon),
    "FedMMD, weight = 0": same(changed("fedmmd", "FeatureMatch", weight=0.0), fedavg, preset.fedmmd),
    "FedAwS, no step": same(changed("fedaws", "SpreadHead", steps=0), fedavg, preset.fedaws, EXACT),
    "first round of SCAFFOLD": Limit(
        Case(preset.scaffold, rounds=1, solver=PLAIN),
        uniform,
        Case(preset.scaffold, rounds=2, solver=PLAIN),
    ),
    "SCAFFOLD's correction without momentum": Limit(
        Case(changed("scaffold", "ControlVariates", momentum_correction=True), solver=PLAIN),
        preset.scaffold,
        Case(uniform, solver=PLAIN),
    ),
    "FedNova, equal steps": Limit(
        Case(preset.fednova, EQUAL_STEPS), fedavg, Case(preset.fednova, UNEQUAL_STEPS)
    ),
    "FedAvgM, beta = 0": same(changed("fedavgm", "ServerMomentum", beta=0.0), fedavg, preset.fedavgm, EXACT),
    "FedAdam, no adaptation": same(
        changed("fedadam", "AdaptiveServer", **fedadam), fedavg, preset.fedadam, 1e-7
    ),
    "GRP-FED's weights, q = 0": same(
        changed("grpfed_aggregation", "AdaptivePower", q=0.0, rate=0.0),
        uniform,
        preset.grpfed_aggregation,
    ),
    "GRP-FED's global branch": same(preset.grpfed, preset.grpfed_aggregation, preset.qffl),
    "GRP-FED, beta = 1: no critic": same(
        changed("grpfed", "GlobalRegularised", beta=1.0),
        changed("grpfed", "GlobalRegularised", beta=1.0, r_loss="nonsaturating"),
        preset.grpfed,
        personal=True,
    ),
    "q-FFL, q = 0": same(changed("qffl", "AdaptivePower", q=0.0), uniform, preset.qffl),
    "q-FedAvg, q = 0": same(changed("qfedavg", "FairDescent", q=0.0), uniform, preset.qfedavg),
    "AFL, rate = 0": same(changed("afl", "Agnostic", rate=0.0), uniform, preset.afl),
    "FedOVA as it arrives, equal shares": same(
        changed("fedova_async", "AsArrived", rate=None), preset.fedova, preset.fedova_async
    ),
    "LG-FedAvg, all layers": same(changed("lg_fedavg", "Top", layers=3), fedavg, preset.lg_fedavg, EXACT),
    "Ditto's upload": same(preset.ditto, fedavg, joined("ditto", "fedprox"), EXACT),
    "Ditto, weight = 0": same(
        changed("ditto", "PrivateCopy", weight=0.0), local, preset.ditto, personal=True
    ),
    "FedDML without the private lesson": same(
        changed("feddml", "MutualLearning", weight=0.0), fedavg, preset.feddml, EXACT
    ),
    "FedDML without the shared lesson": same(
        changed("feddml", "MutualLearning", private_weight=0.0), local, preset.feddml, personal=True
    ),
    "FedProto, weight = 0": same(
        changed("fedproto", "Prototypes", weight=0.0), local, preset.fedproto, personal=True
    ),
    **{
        f"{name}, one participant": Limit(
            Case(PRESETS[name], (0,)), fedavg, Case(PRESETS[name], (0, 1)), EXACT
        )
        for name in ("afl", "qffl", "grpfed_aggregation", "fednova")
    },
}


def trees(run: Finished, personal: bool) -> dict[object, Tree]:
    return dict(run.personal()) if personal else {"server": run.server["shared"]}


def distance(limit: Limit, case: Case) -> float:
    """Between the case and what the limit should equal, run with the same clients, rounds and solver."""
    one, other = (
        trees(case.run(), limit.personal),
        trees(case._replace(method=limit.equals).run(), limit.personal),
    )
    assert one.keys() == other.keys()
    gaps = [
        float((value - other[key][name]).abs().max())
        for key, tree in one.items()
        for name, value in tree.items()
        if name in other[key]
    ]
    assert gaps
    return max(gaps)


@pytest.mark.parametrize("name", LIMITS)
def test_the_limit_holds(name: str) -> None:
    limit = LIMITS[name]
    assert distance(limit, limit.case) <= limit.near


@pytest.mark.parametrize("name", LIMITS)
def test_beside_the_limit_it_does_not(name: str) -> None:
    limit = LIMITS[name]
    assert distance(limit, limit.otherwise) > max(FAR, limit.near)


@pytest.mark.parametrize("name", ["fedlc", "masked_softmax", "fedova", "fedova_async"])
def test_one_label_teaches_nothing(name: str) -> None:
    """Without decay a client with one label sends back what it received, bit for bit; FedAvg's would not."""
    alone = Case(PRESETS[name], (world.SINGLE_LABEL,), rounds=1, solver=SGD(0.1, momentum=0.9))
    run = alone.run()
    sent = {n: value[0] for n, value in run.reply.shared.items()}
    received = run.algorithm.method.share.take(
        run.algorithm.initial, run.engine.feed.idle(world.SINGLE_LABEL)
    )
    assert all(torch.equal(sent[n], received[n]) for n in received)
    assert all(torch.equal(run.server["shared"][n], value) for n, value in run.algorithm.initial.items())
    control = alone._replace(method=fedavg).run()
    assert gap(control.server["shared"], control.algorithm.initial) > FAR
