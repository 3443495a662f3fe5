"""Networks: sizes from the papers, the same numbers as the plain modules, pure functions of their tree."""

from functools import cache, partial
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedskew import tree
from fedskew.models import model, names, network
from fedskew.models.registry import MODELS
from fedskew.tree import Tree
from fedskew.values import Model

MNIST, CIFAR, KWS, ECG = (1, 28, 28), (3, 32, 32), (1, 50, 16), (1, 256)


class Case(NamedTuple):
    shape: tuple[int, ...]
    outputs: int
    width: int  # of the features
    parameters: int  # of trainable numbers, by hand from the papers' tables


CASES = {
    "logistic": Case((60,), 10, 60, 610),
    "mlp": Case((1, 8, 8), 10, 64, 4_810),
    "fedabc-mlp": Case(MNIST, 10, 200, 258_310),
    "fedabc-cnn": Case(CIFAR, 10, 64, 307_842),
    "fedlc-cnn": Case(CIFAR, 10, 512, 304_650),
    "fedlc-cnn-28": Case(MNIST, 10, 1152, 308_746),
    "fedova-cnn": Case(MNIST, 10, 512, 821_706),
    "fedova-vgg11": Case(CIFAR, 10, 512, 9_225_610),
    "fedova-kws": Case(KWS, 10, 256, 1_664_522),
    "bench-cnn": Case(MNIST, 10, 1568, 28_938),
    "map-mlpnet": Case(MNIST, 10, 128, 1_985_920),
    "map-lenet": Case(MNIST, 10, 256, 9_392),
    "map-tfcnn": Case(CIFAR, 10, 1024, 66_560),
    "map-vgg8": Case(CIFAR, 10, 512, 3_915_904),
    "map-vgg8-bn": Case(CIFAR, 10, 512, 3_918_848),
    "map-vgg11": Case(CIFAR, 10, 512, 9_225_600),
    "vgg11-bn": Case(CIFAR, 10, 512, 9_231_104),
    "vgg16-bn": Case(CIFAR, 10, 512, 14_728_256),
    "resnet20": Case(CIFAR, 10, 64, 272_464),
    "resnet56": Case(CIFAR, 10, 64, 855_760),
    "resnet32": Case(CIFAR, 10, 64, 471_066),
    "resnet18": Case((3, 64, 64), 12, 512, 11_182_668),
    "ecg-resnet": Case(ECG, 12, 64, 65_132),
    "femnist-cnn": Case(MNIST, 62, 2048, 6_603_710),
    "lenet-2d": Case(MNIST, 10, 2, 37_934),
}
NORMED = {"fedlc-cnn", "fedlc-cnn-28", "map-vgg8-bn", "vgg11-bn", "vgg16-bn"}
RESIDUAL = {"resnet18", "resnet20", "resnet32", "resnet56", "ecg-resnet"}
FREE = sorted(set(CASES) - NORMED - RESIDUAL)
TWO_LAYERS = {"resnet32", "ecg-resnet"}
BIAS_FREE = {name for name in CASES if name.startswith(("map-", "vgg"))} | {
    "resnet20",
    "resnet56",
    "lenet-2d",
}


@cache
def made(name: str) -> tuple[Model, Tree]:
    """The model with statistics that no fresh network has."""
    case = CASES[name]
    found = model(name, None, case.shape)(case.outputs)
    start = found.init(3)
    moved = {
        n: start[n] + 0.1 * torch.rand(start[n].shape) for n in found.buffers if start[n].is_floating_point()
    }
    return found, {**start, **moved}


def inputs(name: str, count: int = 4) -> Tensor:
    return torch.randn(count, *CASES[name].shape, generator=torch.Generator().manual_seed(1))


def numel(found: Model, entries: Tree) -> int:
    return sum(entries[name].numel() for name in found.trainable)


def test_the_table_is_complete() -> None:
    assert set(names()) == set(MODELS) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_sizes(name: str) -> None:
    found, entries = made(name)
    case = CASES[name]
    out = found.forward(entries, inputs(name), False)
    assert numel(found, entries) == case.parameters
    assert found.width == case.width
    assert found.classes == case.outputs
    assert out.logits.shape == (4, case.outputs)
    assert out.features.shape == (4, case.width)
    assert set(found.names) == set(entries)
    assert bool(found.buffers) == (name in NORMED | RESIDUAL)


@pytest.mark.parametrize(
    ("name", "count"), [("fedova-cnn", 817_089), ("fedova-kws", 1_662_209), ("fedova-vgg11", 9_220_993)]
)
def test_binary_forms_of_fedova(name: str, count: int) -> None:
    binary = model(name, {}, CASES[name].shape)(1)
    assert numel(binary, binary.init(0)) == count
    assert binary.classes == 1


@pytest.mark.parametrize("name", CASES)
def test_heads(name: str) -> None:
    found, entries = made(name)
    biases = {n for n in found.head if n.endswith("bias")}
    assert len(found.head) - len(biases) == (2 if name in TWO_LAYERS else 1)
    assert bool(biases) == (name not in BIAS_FREE)
    assert found.head[-1 if name in BIAS_FREE else -2] in ("head.weight", "head.fc2.weight")
    # The logits are the head applied to the features, and nothing else.
    out = found.forward(entries, inputs(name), False)
    z = out.features
    if name in TWO_LAYERS:
        z = F.relu(F.linear(z, entries["head.fc1.weight"], entries["head.fc1.bias"]))
    last = "head.fc2" if name in TWO_LAYERS else "head"
    torch.testing.assert_close(
        out.logits, F.linear(z, entries[f"{last}.weight"], entries.get(f"{last}.bias"))
    )


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_same_as_the_plain_module_and_nothing_changes_in_place(name: str, train: bool) -> None:
    found, entries = made(name)
    before = tree.clone(entries)
    plain = network(name).module(CASES[name].shape, CASES[name].outputs)
    plain.load_state_dict(entries)
    plain.train(train)
    with torch.no_grad():
        expected = plain(inputs(name))
        out = found.forward(entries, inputs(name), train)
    assert torch.equal(out.logits, expected)
    assert set(out.buffers) == found.buffers
    for key, value in plain.named_buffers():
        assert torch.equal(out.buffers[key], value)
        assert torch.equal(value, before[key]) == (not train)
    for key, value in entries.items():
        assert torch.equal(value, before[key])


@pytest.mark.parametrize("name", [*sorted(NORMED - {"vgg16-bn"}), "resnet20", "ecg-resnet"])
def test_batch_norm_networks_have_gradients(name: str) -> None:
    found, entries = made(name)
    leaves = {n: entries[n].clone().requires_grad_() for n in found.trainable}
    out = found.forward({**entries, **leaves}, inputs(name), True)
    grads = torch.autograd.grad(out.logits.logsumexp(1).sum(), list(leaves.values()))
    assert all(torch.isfinite(grad).all() for grad in grads)
    assert not any(value.requires_grad for value in out.buffers.values())


def loss(found: Model, entries: Tree, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(found.forward(entries, x, True).logits, y)


@pytest.mark.parametrize("name", FREE)
def test_gradients_of_many_clients_at_once(name: str) -> None:
    found, _ = made(name)
    trees = [found.init(seed) for seed in (0, 1)]
    x = inputs(name, 4).reshape(2, 2, *CASES[name].shape)
    y = torch.tensor([[0, 1], [2, 3]])
    gradient = torch.func.grad(partial(loss, found))
    together = torch.func.vmap(gradient)(tree.stack(trees), x, y)
    for k in range(2):
        leaves = {n: v.requires_grad_() for n, v in trees[k].items()}
        alone = torch.autograd.grad(loss(found, leaves, x[k], y[k]), list(leaves.values()))
        for key, expected in zip(leaves, alone, strict=True):
            torch.testing.assert_close(together[key][k], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "map-lenet", "fedlc-cnn-28", "resnet20", "ecg-resnet"])
def test_initial_weights_come_from_the_seed_alone(name: str) -> None:
    torch.manual_seed(0)
    found = model(name, None, CASES[name].shape)(10)
    first, after = found.init(7), torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))
    again, other = found.init(7), found.init(8)
    assert all(torch.equal(first[n], again[n]) for n in found.names)
    assert not all(torch.equal(first[n], other[n]) for n in found.trainable)
    assert not any(value.requires_grad for value in first.values())


@pytest.mark.parametrize("name", ["mlp", "fedlc-cnn-28", "ecg-resnet"])
def test_a_missing_entry_fails(name: str) -> None:
    found, entries = made(name)
    for missing in found.names:
        rest = {n: v for n, v in entries.items() if n != missing}
        with pytest.raises((KeyError, RuntimeError), match="(?i)" + missing.replace(".", r"\.")):
            found.forward(rest, inputs(name), False)


@pytest.mark.parametrize("name", ["mlp", "fedabc-cnn", "fedlc-cnn", "resnet20", "ecg-resnet"])
@pytest.mark.parametrize("train", [False, True])
def test_double_precision(name: str, train: bool) -> None:
    found, entries = made(name)
    x = inputs(name)
    out = found.forward(tree.cast(entries, torch.float64), x.double(), train)
    assert out.logits.dtype == out.features.dtype == torch.float64
    assert all(v.dtype == torch.float64 for v in out.buffers.values() if v.is_floating_point())
    torch.testing.assert_close(
        out.logits.float(), found.forward(entries, x, train).logits, rtol=1e-3, atol=1e-4
    )


# Oracles written from the tables of the papers, with the order of layers as printed there.


def weights(entries: Tree, name: str) -> tuple[Tensor, Tensor | None]:
    return entries[f"{name}.weight"], entries.get(f"{name}.bias")


def printed_convnet(
    entries: Tree, x: Tensor, convs: int, padding: int, pool: tuple[int, int], fcs: int
) -> Tensor:
    for i in range(1, convs + 1):
        x = F.max_pool2d(F.relu(F.conv2d(x, *weights(entries, f"conv{i}"), padding=padding)), pool)
    x = x.flatten(1)
    for i in range(1, fcs + 1):
        x = F.relu(F.linear(x, *weights(entries, f"fc{i}")))
    return F.linear(x, *weights(entries, "head"))


@pytest.mark.parametrize(
    ("name", "convs", "padding", "pool", "fcs"),
    [
        ("fedabc-cnn", 2, 0, (2, 2), 2),
        ("fedova-cnn", 2, 2, (2, 2), 1),
        ("fedova-kws", 3, 1, (1, 2), 1),
        ("bench-cnn", 2, 2, (2, 2), 0),
        ("map-lenet", 2, 0, (2, 2), 0),
        ("map-tfcnn", 3, 1, (2, 2), 0),
        ("map-vgg8", 5, 1, (2, 2), 0),
        ("femnist-cnn", 2, 2, (2, 2), 1),
    ],
)
def test_convnets_as_printed(name: str, convs: int, padding: int, pool: tuple[int, int], fcs: int) -> None:
    found, entries = made(name)
    leaves = {n: v.clone().requires_grad_() for n, v in entries.items()}
    mine = found.forward(leaves, inputs(name), True).logits
    printed = printed_convnet(leaves, inputs(name), convs, padding, pool, fcs)
    assert torch.equal(mine, printed)
    ours = torch.autograd.grad(mine.logsumexp(1).sum(), list(leaves.values()))
    theirs = torch.autograd.grad(printed.logsumexp(1).sum(), list(leaves.values()))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_fedlc_as_printed() -> None:
    found, entries = made("fedlc-cnn")
    x = inputs("fedlc-cnn")
    for i in (1, 2, 3):
        x = F.relu(normed(entries, f"norm{i}", F.conv2d(x, *weights(entries, f"conv{i}"))))
        x = F.max_pool2d(x, 2)
    expected = F.linear(x.flatten(1), *weights(entries, "head"))
    torch.testing.assert_close(found.forward(entries, inputs("fedlc-cnn"), False).logits, expected)


def test_vgg11_as_printed() -> None:
    found, entries = made("map-vgg11")
    x, i = inputs("map-vgg11"), 0
    for sign in "1M1M11M11M11M":
        if sign == "M":
            x = F.max_pool2d(x, 2)
        else:
            i += 1
            x = F.relu(F.conv2d(x, *weights(entries, f"conv{i}"), padding=1))
    expected = F.linear(x.flatten(1), *weights(entries, "head"))
    torch.testing.assert_close(found.forward(entries, inputs("map-vgg11"), False).logits, expected)


def normed(entries: Tree, name: str, x: Tensor) -> Tensor:
    gain, shift, mean, var = (
        entries[f"{name}.{n}"].reshape(-1, *(1 for _ in x.shape[2:]))
        for n in ("weight", "bias", "running_mean", "running_var")
    )
    return gain * (x - mean) / torch.sqrt(var + 1e-5) + shift


def conv(entries: Tree, name: str, x: Tensor, stride: int = 1) -> Tensor:
    weight = entries[f"{name}.weight"]
    function = F.conv1d if x.ndim == 3 else F.conv2d
    return function(x, weight, stride=stride, padding=weight.shape[-1] // 2)


def block(entries: Tree, name: str, x: Tensor, stride: int) -> Tensor:
    h = F.relu(normed(entries, f"{name}.path.norm1", conv(entries, f"{name}.path.conv1", x, stride)))
    h = normed(entries, f"{name}.path.norm2", conv(entries, f"{name}.path.conv2", h))
    if stride > 1:
        x = conv(entries, f"{name}.shortcut.conv1", x, stride)
        x = normed(entries, f"{name}.shortcut.norm1", x)
    return F.relu(h + x)


@pytest.mark.parametrize(
    ("name", "stem", "strides"),
    [
        ("resnet20", 1, [1, 1, 1, 2, 1, 1, 2, 1, 1]),
        ("resnet32", 1, [1] * 5 + [2] + [1] * 4 + [2] + [1] * 4),
        ("resnet18", 2, [1, 1, 2, 1, 2, 1, 2, 1]),
        ("ecg-resnet", 1, [1, 2]),
    ],
)
def test_residual_networks_as_printed(name: str, stem: int, strides: list[int]) -> None:
    found, entries = made(name)
    exact = tree.cast(entries, torch.float64)
    x = inputs(name).double()
    h = F.relu(normed(exact, "norm1", conv(exact, "conv1", x, stem)))
    if name == "resnet18":
        h = F.max_pool2d(h, 3, stride=2, padding=1)
    for i, stride in enumerate(strides, 1):
        h = block(exact, f"block{i}", h, stride)
    torch.testing.assert_close(found.forward(exact, x, False).features, h.flatten(2).mean(2))


@pytest.mark.parametrize("name", sorted(BIAS_FREE - {"lenet-2d"}))
def test_initial_weights_of_map(name: str) -> None:
    found, _ = made(name)
    for key, value in found.init(0).items():
        if key.endswith("weight") and value.ndim > 1:
            fan_out = value.shape[0] * value[0, 0].numel()
            std = 0.01 if value.ndim == 2 else (2 / fan_out) ** 0.5
            assert value.std().item() == pytest.approx(std, rel=4 / value.numel() ** 0.5), key
            assert value.mean().abs().item() < 5 * std / value.numel() ** 0.5, key
        elif key.endswith("bias"):
            assert not value.any(), key


def test_features_of_lenet_2d_with_and_without_relu() -> None:
    free = model("lenet-2d", {}, MNIST)(10)
    kept = model("lenet-2d", {"rectified": True}, MNIST)(10)
    entries, x = free.init(0), inputs("lenet-2d", 64)
    features = free.forward(entries, x, False).features
    assert (features < 0).any()
    assert torch.equal(kept.forward(entries, x, False).features, features.relu())


@pytest.mark.parametrize("name", sorted(set(CASES) - RESIDUAL))
def test_plain_sequences_are_plain(name: str) -> None:
    built = network(name).module(CASES[name].shape, 10)
    assert type(built) is nn.Sequential
    assert not any(list(layer.children()) for layer in built)
