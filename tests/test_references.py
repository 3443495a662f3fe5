"""Each preset equals its paper-style loop; a loop with a known mistake does not."""

from collections.abc import Callable
from functools import partial

import pytest
from references import fedavg, fedova, fedprox, fedrep, fedrs, grpfed, local, map, scaffold, world
from references.common import Result, Setting
from references.runs import PRESETS, finished, gap, setting

NEAR = 1e-8
FAR = 1e-5

REFERENCES: dict[str, Callable[[Setting], Result]] = {
    "fedavg": fedavg.run,
    "fedprox": fedprox.run,
    "scaffold": scaffold.run,
    "local": local.run,
    "fedrep": fedrep.run,
    "fedova": fedova.run,
    "fedrs": fedrs.run,
    "map": map.run,
    "grpfed": grpfed.run,
}

TRAPS: dict[str, tuple[str, Callable[[Setting], Result]]] = {
    "uniform weights": ("fedavg", partial(fedavg.run, weight="uniform")),
    "no proximal term": ("fedprox", fedavg.run),
    "changes of c_k divided by participants": ("scaffold", partial(scaffold.run, divide_by="participants")),
    "momentum in SCAFFOLD": ("scaffold", partial(scaffold.run, momentum=0.9)),
    "heads leak through the average": ("fedrep", partial(fedrep.run, head_leaks=True)),
    "clients without the class count": ("fedova", partial(fedova.run, everybody_counts=True)),
    "untouched components are reset": ("fedova", partial(fedova.run, reset_untouched=True)),
    "alpha = 1": ("fedrs", partial(fedrs.run, alpha=1.0)),
    "the second stage is uploaded": ("map", partial(map.run, uploads_stage_2=True)),
    "an untrained teacher": ("map", partial(map.run, first_lesson=True)),
    "this participation counts in z": ("map", partial(map.run, count_first=True)),
    "divergence the wrong way round": ("map", partial(map.run, backwards=True)),
    "sample deviation": ("grpfed", partial(grpfed.run, ddof=1)),
    "weights before q moves": ("grpfed", partial(grpfed.run, weigh_before=True)),
    "the local branch trains the classifier": ("grpfed", partial(grpfed.run, classifier_learns=True)),
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


@pytest.mark.parametrize("trap", [name for name, (preset, _) in TRAPS.items() if preset in PRESETS])
def test_a_known_mistake_is_seen(trap: str) -> None:
    preset, mistaken = TRAPS[trap]
    assert distance(preset, "perceptron", mistaken) > FAR
