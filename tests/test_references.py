"""Each preset equals its paper-style loop; a loop with a known mistake does not."""

import pytest
from references import fedavg, world
from references.common import Result
from references.runs import PRESETS, SOLVER, Finished, finished, gap, setting
from references.tables import REFERENCES, TRAPS, VARIANTS, Reference

from fedskew.data.federation import Training
from fedskew.method import Method
from fedskew.step import SGD

NEAR = 1e-8
FAR = 1e-5


def apart(run: Finished, expected: Result) -> float:
    """The largest difference of the shared and of all personal models."""
    personal = run.personal()
    assert personal.keys() == expected.personal.keys()
    gaps = [gap(personal[k], own) for k, own in expected.personal.items()]
    return max([gap(run.server["shared"], expected.server), *gaps])


def distance(method: Method, network: str, reference: Reference) -> float:
    return apart(finished(method, network=network), reference(setting(method, network)))


def test_every_preset_has_a_reference() -> None:
    assert PRESETS.keys() <= REFERENCES.keys(), f"no reference: {sorted(PRESETS.keys() - REFERENCES.keys())}"


@pytest.mark.parametrize("network", world.NETWORKS)
@pytest.mark.parametrize("preset", [name for name in REFERENCES if name in PRESETS])
def test_preset_equals_its_reference(preset: str, network: str) -> None:
    assert distance(PRESETS[preset], network, REFERENCES[preset]) < NEAR


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_equals_its_reference(variant: str) -> None:
    method, reference = VARIANTS[variant]
    network = "batch-norm" if variant == "statistics at home" else "perceptron"
    assert distance(method, network, reference) < NEAR


@pytest.mark.parametrize("trap", TRAPS)
def test_a_known_mistake_is_seen(trap: str) -> None:
    assert distance(TRAPS[trap][0], "perceptron", TRAPS[trap][1]) > FAR


@pytest.mark.parametrize("preset", ["fedrep", "map", "map_released", "per_fedavg", "per_fedavg_hf"])
def test_one_epoch(preset: str) -> None:
    """FedRep then trains the body alone, and a client with one batch has no second stage of MAP."""
    method, training = PRESETS[preset], Training(epochs=1, batch=world.TRAINING.batch)
    expected = REFERENCES[preset](setting(method, "perceptron")._replace(training=training))
    assert apart(finished(method, training=training), expected) < NEAR


def test_clipping_and_warm_up() -> None:
    method = PRESETS["fedavg"]
    solver = SGD(SOLVER.lr, SOLVER.momentum, SOLVER.weight_decay, clip=0.3, warmup=2)
    run = finished(method, solver=solver)
    plain = setting(method, "perceptron")
    assert apart(run, fedavg.run(plain._replace(clip=0.3, warmup=2))) < NEAR
    assert apart(run, fedavg.run(plain._replace(clip=0.3))) > FAR
    assert apart(run, fedavg.run(plain._replace(warmup=2))) > FAR
