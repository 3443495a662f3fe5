"""Each warning appears where it must and nowhere else."""

import pytest
import torch
from torch import Tensor

from fedskew.data.federation import Training
from fedskew.doctor import warnings
from fedskew.methods import presets, table
from fedskew.step import SGD

SKEWED = torch.tensor([[20, 30, 0], [0, 9, 40], [15, 0, 25]])
BALANCED = torch.tensor([[20, 20, 20], [21, 20, 20], [40, 41, 40]])
LONELY = torch.tensor([[20, 30, 0], [10, 9, 0], [0, 0, 25]])
UNKNOWN = torch.tensor([[20, 30, 0], [10, 9, 0]])


def said(
    preset: str,
    counts: Tensor = SKEWED,
    parts: dict[str, object] | None = None,
    epochs: int = 2,
    **solver: float,
) -> str:
    made = table({"preset": preset, "parts": parts or {}})
    return "\n".join(warnings(made, counts, Training(epochs, 10), SGD(**{"lr": 0.01, **solver})))


QUIET = ("qffl", "grpfed", "grpfed-aggregation", "qfedavg")  # these weigh too boldly not to say so


@pytest.mark.parametrize("preset", [name for name in presets() if name not in QUIET])
def test_a_sound_setting_is_left_alone(preset: str) -> None:
    assert said(preset) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("FedAvg in all but name", said("fedlc", BALANCED)),
        ("clients hold one label", said("fedlc", LONELY)),
        ("clients hold one label", said("fedrod", LONELY)),
        ("2 of 3 pairs of classes meet in no client", said("fedlc", LONELY)),
        ("no client misses a class", said("fedrs", BALANCED)),
        ("alpha = 1", said("fedrs", parts={"RestrictedSoftmax": {"alpha": 1.0}})),
        ("1 of 3 clients hold one label", said("fedova", LONELY)),
        ("class 2, which stays untrained", said("fedova", LONELY)),
        ("on positives only", said("fedova", LONELY, {"OwnRows": {"single_label": "positive_only"}})),
        ("without momentum", said("scaffold", momentum=0.9)),
        ("10 times shorter", said("scaffold", momentum=0.9)),
        (
            "an approximation",
            said("scaffold", SKEWED, {"ControlVariates": {"momentum_correction": True}}, momentum=0.9),
        ),
        ("the head is never trained", said("fedrep", epochs=1)),
        ("look untrained", said("qfedavg")),
        ("weighs 1,024 times", said("qffl")),
        ("FedNova is FedAvg", said("fednova", torch.tensor([[20, 30], [25, 25]]))),
        ("no second stage", said("map", torch.tensor([[3, 2], [2, 2]]), epochs=1)),
        ("sees the same one again", said("per-fedavg", torch.tensor([[3, 2], [2, 2]]), epochs=1)),
        ("train.lr x strength = 1.5", said("pfedme", lr=0.1)),
        ("the pull alone overshoots", said("fedprox", SKEWED, {"Proximal": {"mu": 200.0}})),
        ("may diverge", said("fedavg", lr=0.1, momentum=0.9)),
        ("no client holds an example of class 2", said("fedavg", UNKNOWN)),
    ],
)
def test_a_warning_says_why(text: str, found: str) -> None:
    assert text in found


def test_other_settings_of_the_same_parts_are_quiet() -> None:
    assert said("fedlc", LONELY, {"CalibratedSoftmax": {"missing": "clip"}}) == ""
    assert said("fedrs", BALANCED, {"RestrictedSoftmax": {"mode": "soft"}}) == ""
    assert said("fedprox", momentum=0.9) == ""
    assert said("qfedavg", SKEWED, {"FairDescent": {"q": 1.0}}) == ""
