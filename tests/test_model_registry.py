"""Networks by name: what fits, what is refused and in which words; any module as a model."""

import subprocess
import sys
from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from fedskew import IID, Experiment
from fedskew.engines.choose import Choice
from fedskew.errors import ConfigError
from fedskew.kernels import using
from fedskew.models import model, network
from fedskew.models.convnets import ConvNet
from fedskew.models.module import factory, from_module
from fedskew.models.registry import MODELS
from fedskew.models.resnet import ResNet

MNIST, CIFAR, KWS, ECG = (1, 28, 28), (3, 32, 32), (1, 50, 16), (1, 256)


@pytest.mark.parametrize("shape", [(60,), (1, 8, 8), MNIST, (1, 32, 32), (3, 64, 64), KWS, (2, 100)])
def test_networks_that_say_they_fit_do(shape: tuple[int, ...]) -> None:
    fitting = [name for name, entry in MODELS.items() if entry.fits(shape)]
    assert {"mlp", "logistic"} <= set(fitting)
    for name in fitting:
        with torch.device("meta"):
            assert network(name).module(shape, 5)(torch.empty(2, *shape)).shape == (2, 5)


def test_a_shape_that_does_not_fit() -> None:
    with pytest.raises(ConfigError) as caught:
        model("fedabc-cnn", {}, MNIST)
    said = str(caught.value)
    assert "fedabc-cnn takes inputs anyx32x32, but the data are 1x28x28" in said
    assert "fedova-cnn" in said
    assert "map-vgg8" not in said
    with pytest.raises(ConfigError, match="ecg-resnet"):
        model("resnet20", {}, ECG)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("resnet-20", {}, "unknown model 'resnet-20'. Did you mean 'resnet20'"),
        ("mlp", {"hiden": (3,)}, "Did you mean 'hidden'"),
        ("resnet18", {"depth": 34}, "it has none"),
        ("mlp", {"hidden": ["a"]}, "mlp: hidden.0 = 'a'"),
        ("mlp", {"hidden": [0]}, "greater than 0"),
        ("mlp", {"init": "zeros"}, "'torch' or 'kaiming'"),
        ("vgg16-bn", {"depth": 12}, "8, 11 or 16"),
        ("resnet20", {"depth": 30}, "6n + 2"),
        ("bench-cnn", {"stages": [[]]}, "at least 1 item"),
    ],
)
def test_wrong_names_and_options(name: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        network(name, options)
    assert said in str(caught.value)


def test_options_change_a_preset_and_lists_are_welcome() -> None:
    assert network("map-lenet", {"stages": [[4], [8, 8]]}) == ConvNet(
        stages=((4,), (8, 8)), padding=0, bias=False, init="kaiming"
    )
    assert network("resnet20", {"bias": True}) == ResNet(depth=20, bias=True, init="kaiming")


def test_too_many_stages_for_the_image() -> None:
    with pytest.raises(ConfigError, match="28 pixels are too few for 5 stages"):
        ConvNet(stages=((4,),) * 5).module(MNIST, 10)


def test_listing_does_not_wait_for_torch() -> None:
    code = "import sys, fedskew.models as m; m.names(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Own(nn.Module):
    """What a user might bring: not a sequence, its head not the last thing defined."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.top = nn.Linear(6, outputs)
        self.body = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.top(torch.tanh(self.body(x)))
        return found


class Scaled(nn.Module):
    """Has a parameter without dimensions."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.top = nn.Linear(5, outputs)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.scale * self.top(x)
        return found


def test_any_module_is_a_model() -> None:
    found = factory(Own, head=["top"])(3)
    assert (found.classes, found.width, found.head) == (3, 6, ("top.weight", "top.bias"))
    out = found.forward(found.init(0), torch.randn(4, 5), True)
    assert out.buffers["body.1.num_batches_tracked"] == 1
    assert from_module(lambda: Own(3)).head == (
        "body.0.weight",
        "body.0.bias",
    )  # the last linear layer defined


@pytest.mark.parametrize("engine", ["serial", "vectorised"])
@pytest.mark.parametrize("method", ["fedavg", "fedper", "fedrod", "qfedavg"])
def test_a_network_may_be_one_layer_or_hold_single_numbers(
    method: str, engine: Literal["serial", "vectorised"]
) -> None:
    data = torch.randn(60, 5), torch.arange(60) % 3
    for build in (lambda outputs: nn.Linear(5, outputs), Scaled):
        found = Experiment(data, IID(clients=3), build, method, rounds=1, engine=Choice(engine)).fit()
        assert 0 <= found.runs[0].last("global.accuracy") <= 1


def dropping(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, outputs))


@pytest.mark.parametrize("method", ["fedavg", "per-fedavg", "map", "fedova"])
def test_dropout_depends_on_the_seed_the_round_and_the_client_alone(method: str) -> None:
    data = torch.randn(60, 5), torch.arange(60) % 3

    def fit(engine: Choice) -> str:
        torch.rand(3)  # what others draw does not matter
        found = Experiment(data, IID(clients=3), dropping, method, rounds=2, engine=engine).fit()
        return repr(found.runs[0].records)

    first = fit(Choice("serial"))
    assert fit(Choice("serial")) == first
    assert fit(Choice("pool", workers=2)) == first
    assert fit(Choice()) == first
    before = torch.random.get_rng_state()
    fit(Choice("serial"))
    torch.rand(3)
    after = torch.random.get_rng_state()
    torch.random.set_rng_state(before)
    torch.rand(6)
    assert torch.equal(torch.random.get_rng_state(), after), "nothing is drawn from what is the user's"
    with pytest.raises(ConfigError, match="cannot run a network with batch-norm or dropout"):
        fit(Choice("vectorised"))


def test_the_head_of_one_layer_is_the_layer() -> None:
    found = from_module(lambda: nn.Linear(5, 3))
    assert (found.head, found.width, found.classes) == (("weight", "bias"), 5, 3)
    x, params = torch.randn(4, 5), found.init(0)
    with using("torch"):
        assert torch.allclose(found.forward(params, x, False).logits, x @ params["weight"].T + params["bias"])


def test_heads_of_any_module_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"head module 'fc' is not in the network\. Modules: top, body"):
        factory(Own, head=["fc"])(3)
    with pytest.raises(ConfigError, match="no linear layer"):
        from_module(lambda: nn.Conv2d(1, 1, 1))
    with pytest.raises(ConfigError, match="ends in 6 outputs, but 3 are asked for"):
        factory(Own)(3)


def test_an_experiment_names_the_head_of_its_own_network() -> None:
    data = torch.randn(60, 5), torch.arange(60) % 3
    plan = Experiment(data, IID(clients=3), Own, "fedper", rounds=1, head=("top",))
    with plan.session(0) as session:
        assert session.feed.algorithm.model.head == ("top.weight", "top.bias")
        assert len(list(session.rounds())) == 1
    with pytest.raises(ConfigError, match=r"name its modules: Experiment\(head"):
        replace(plan, head=()).fit()
    with pytest.raises(ConfigError, match="model mlp knows its own head"):
        replace(plan, model="mlp")
    with pytest.raises(ConfigError, match="takes none; set them in its function"):
        replace(plan, model_options={"hidden": (8,)})


def test_a_head_of_two_named_layers() -> None:
    found = model("fedabc-cnn", {}, CIFAR, head=("fc2", "head"))(10)
    assert found.head == ("fc2.weight", "fc2.bias", "head.weight", "head.bias")
    assert found.width == 120
    assert found.forward(found.init(0), torch.randn(4, *CIFAR), False).features.shape == (4, 120)
