"""Each preset equals its paper-style loop; a loop with a known mistake does not."""

from collections.abc import Callable
from functools import partial

import pytest
from references import (
    afl,
    ditto,
    fedabc,
    fedavg,
    fedaws,
    feddyn,
    fedlc,
    fedmmd,
    fednova,
    fedopt,
    fedova,
    fedper,
    fedphp,
    fedproto,
    fedprox,
    fedrep,
    fedrod,
    fedrs,
    grpfed,
    local,
    map,
    moon,
    perfedavg,
    pfedme,
    qffl,
    scaffold,
    world,
)
from references.common import Result, Setting
from references.runs import PRESETS, finished, gap, setting

NEAR = 1e-8
FAR = 1e-5

REFERENCES: dict[str, Callable[[Setting], Result]] = {
    "fedavg": fedavg.run,
    "local": local.run,
    "fedabc": fedabc.run,
    "fedabc_plain": partial(fedabc.run, sigma=0.0, **fedabc.NOTHING_DROPPED),
    "fedabc_drop": partial(fedabc.run, sigma=0.0),
    "fedabc_focal": partial(fedabc.run, **fedabc.NOTHING_DROPPED),
    "fedlc": fedlc.run,
    "masked_softmax": partial(fedlc.run, tau=0.0),
    "fedova": fedova.run,
    "fedova_async": partial(fedova.run, arrival=0.5),
    "fedrs": fedrs.run,
    "fedphp": fedphp.run,
    "fedphp_mmd": partial(fedphp.run, by="mmd"),
    "map": map.run,
    "map_released": map.released,
    "grpfed": grpfed.run,
    "grpfed_aggregation": grpfed.aggregation,
    "fedprox": fedprox.run,
    "scaffold": scaffold.run,
    "fednova": fednova.run,
    "feddyn": partial(feddyn.run, a=0.01),
    "moon": partial(moon.run, mu=1.0),
    "fedmmd": partial(fedmmd.run, weight=0.1),
    "fedadam": partial(fedopt.run, kind="adam", lr=0.03),
    "fedyogi": partial(fedopt.run, kind="yogi", lr=0.03),
    "fedadagrad": partial(fedopt.run, kind="adagrad", lr=0.03, b1=0.0),
    "fedavgm": partial(fedopt.run, kind="momentum", lr=1.0),
    "fedaws": fedaws.run,
    "afl": afl.run,
    "qffl": qffl.run,
    "qfedavg": qffl.qfedavg,
    "fedper": fedper.run,
    "fedrep": fedrep.run,
    "lg_fedavg": partial(fedper.lg, layers=2),
    "lg_head": partial(fedper.lg, layers=1),
    "fedproto": fedproto.run,
    "fedrod": fedrod.run,
    "ditto": partial(ditto.run, strength=0.1),
    "pfedme": pfedme.run,
    "per_fedavg": perfedavg.run,
    "per_fedavg_hf": partial(perfedavg.run, hessian=True),
}

TRAPS: dict[str, tuple[str, Callable[[Setting], Result]]] = {
    "uniform weights": ("fedavg", partial(fedavg.run, weight="uniform")),
    "no proximal term": ("fedprox", fedavg.run),
    "changes of c_k divided by participants": ("scaffold", partial(scaffold.run, divide_by="participants")),
    "momentum in SCAFFOLD": ("scaffold", partial(scaffold.run, momentum=0.9)),
    "drifts divided by participants": ("feddyn", partial(feddyn.run, a=0.01, divide_by="participants")),
    "heads leak through the average": ("fedrep", partial(fedrep.run, head_leaks=True)),
    "FedRep trains all layers together": ("fedrep", fedper.run),
    "classes of the batch": ("fedabc", partial(fedabc.run, class_sets="batch")),
    "mean over classes": ("fedabc", partial(fedabc.run, over_classes="mean")),
    "nothing is easy": ("fedabc", partial(fedabc.run, **fedabc.NOTHING_DROPPED)),
    "missing classes stay in the sum": ("fedlc", partial(fedlc.run, missing="in")),
    "counts of all clients": ("fedlc", partial(fedlc.run, counts="all")),
    "margins do not matter": ("fedlc", partial(fedlc.run, tau=0.0)),
    "clients without the class count": ("fedova", partial(fedova.run, everybody_counts=True)),
    "untouched components are reset": ("fedova", partial(fedova.run, reset_untouched=True)),
    "alpha = 1": ("fedrs", partial(fedrs.run, alpha=1.0)),
    "missing logits removed, not scaled": ("fedrs", partial(fedlc.run, tau=0.0)),
    "a first lesson by nobody": ("fedphp", partial(fedphp.run, first_lesson=True)),
    "counted before the first update": ("fedphp", partial(fedphp.run, count_first=True)),
    "the second stage is uploaded": ("map", partial(map.run, uploads_stage_2=True)),
    "an untrained teacher": ("map", partial(map.run, first_lesson=True)),
    "this participation counts in z": ("map", partial(map.run, count_first=True)),
    "divergence the wrong way round": ("map", partial(map.run, backwards=True)),
    "weights before q moves": ("grpfed", partial(grpfed.run, weigh_before=True)),
    "the local branch trains the classifier": ("grpfed", partial(grpfed.run, classifier_learns=True)),
    "steps without momentum": ("fednova", partial(fednova.run, momentum_counts=False)),
    "bias correction": ("fedadam", partial(fedopt.run, kind="adam", lr=0.03, unbias=True)),
    "normalised, not projected": ("afl", partial(afl.run, project=False)),
    "near and far exchanged": ("moon", partial(moon.run, mu=1.0, swapped=True)),
    "theta starts anew with every batch": ("pfedme", partial(pfedme.run, reset=True)),
    "both gradients on one batch": ("per_fedavg", partial(perfedavg.run, same_batch=True)),
    "prototypes by clients": ("fedproto", partial(fedproto.run, average="uniform")),
    "a head that is not balanced": ("fedrod", partial(fedrod.run, gamma=0.0)),
}


def distance(preset: str, network: str, reference: Callable[[Setting], Result]) -> float:
    """The largest difference of the shared and of all personal models."""
    method = PRESETS[preset]
    run, expected = finished(method, network=network), reference(setting(method, network))
    personal = run.personal()
    assert personal.keys() == expected.personal.keys()
    apart = [gap(personal[k], own) for k, own in expected.personal.items()]
    return max([gap(run.server["shared"], expected.server), *apart])


def test_the_setting_can_tell() -> None:
    assert all(world.skew()), world.skew()


def test_every_preset_has_a_reference() -> None:
    assert PRESETS.keys() <= REFERENCES.keys(), f"no reference: {sorted(PRESETS.keys() - REFERENCES.keys())}"


@pytest.mark.parametrize("network", world.NETWORKS)
@pytest.mark.parametrize("preset", [name for name in REFERENCES if name in PRESETS])
def test_preset_equals_its_reference(preset: str, network: str) -> None:
    assert distance(preset, network, REFERENCES[preset]) < NEAR


@pytest.mark.parametrize("trap", TRAPS)
def test_a_known_mistake_is_seen(trap: str) -> None:
    preset, mistaken = TRAPS[trap]
    assert distance(preset, "perceptron", mistaken) > FAR
