"""Fast kernels against autograd: the same numbers at random shapes, the right fallback, no buffer overwritten."""

import ctypes
import math
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from references import world
from references.runs import PRESETS, advance, gap
from torch import Tensor, nn

from fedskew import models
from fedskew.algorithm import Algorithm
from fedskew.engines.serial import Serial
from fedskew.kernels import Backend, build, using
from fedskew.kernels.chain import Link, Norm, chain_of
from fedskew.kernels.descent import Rates, descend
from fedskew.kernels.native import NativeRunner
from fedskew.kernels.norm import FusedNorm
from fedskew.kernels.shortcut import Shortcut, faster
from fedskew.kernels.torch_ops import Stats, TorchRunner, Trace, channels_last
from fedskew.kernels.winograd import Winograd
from fedskew.models.module import factory, from_module
from fedskew.step import SGD
from fedskew.tree import Tree, cast
from fedskew.values import Model

FAST: tuple[Backend, ...] = ("torch", "native")
CAPABILITIES = tuple(dict.fromkeys(("DEFAULT", torch.backends.cpu.get_cpu_capability())))

fast = pytest.mark.parametrize("backend", FAST)
compiled = pytest.mark.skipif(not build.prepare("native"), reason="no C++ compiler")


def network(*layers: nn.Module) -> Model:
    return from_module(lambda: nn.Sequential(*layers))


@st.composite
def plain_networks(draw: st.DrawFn, norms: bool = False) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A chain of convolutions with and without pooling and ReLU, then linear layers; and the shape it takes."""
    layers: list[nn.Module] = []
    channels = draw(st.integers(1, 9) | st.sampled_from((16, 32)))
    size = [draw(st.integers(1, 11)), draw(st.integers(1, 11))]
    shape = (channels, *size)
    for _ in range(draw(st.integers(0, 3))):
        many = norms and draw(st.booleans())  # channels, for which there are other kernels
        any_size = st.tuples(st.integers(1, 5), st.integers(1, 5))
        kernel = (3, 3) if many else draw(any_size | st.just((5, 5)))
        padding = (1, 1) if many else tuple(draw(st.integers(0, 2)) for _ in size)
        wide = [s + 2 * p - k + 1 for s, p, k in zip(size, padding, kernel, strict=True)]
        if min(wide) < 1:
            continue
        pool = tuple(draw(st.integers(1, min(3, w))) for w in wide)
        width = draw(st.sampled_from((16, 32)) if many else st.integers(1, 20) | st.just(16))
        layers.append(nn.Conv2d(channels, width, kernel, padding=padding, bias=draw(st.booleans())))
        if norms and draw(st.booleans()):
            layers.append(nn.BatchNorm2d(width, momentum=draw(st.sampled_from((0.1, 0.5)))))
        after = [nn.MaxPool2d(pool)] if pool != (1, 1) else []
        after += [nn.ReLU()] if draw(st.booleans()) else []
        layers += draw(st.permutations(after))
        channels, size = width, [w // p for w, p in zip(wide, pool, strict=True)]
    layers.append(nn.Flatten())
    width = channels * math.prod(size)
    for _ in range(draw(st.integers(0, 2))):
        hidden = draw(st.integers(1, 40))
        layers += [nn.Linear(width, hidden, bias=draw(st.booleans())), nn.ReLU()]
        width = hidden
    layers.append(nn.Linear(width, draw(st.integers(1, 12)), bias=draw(st.booleans())))
    return nn.Sequential(*layers), shape


def slopes(model: Model, params: Tree, x: Tensor, trains: list[str], train: bool) -> list[Tensor]:
    """Logits, features, gradients of a loss that looks at both, and moved statistics."""
    leaves = {name: params[name].detach().requires_grad_() for name in trains}
    out = model.forward({**params, **leaves}, x, train)
    weights = torch.linspace(-1, 2, out.logits.numel(), dtype=x.dtype).reshape(out.logits.shape)
    loss = (out.logits * weights).sum() + out.features.square().sum() / 2
    slopes = torch.autograd.grad(loss, list(leaves.values()))
    assert out.buffers.keys() == model.buffers
    assert all(slope.is_contiguous() for slope in slopes), "or the next weights are not"
    return [out.logits, out.features, *slopes, *(out.buffers[name] for name in sorted(model.buffers))]


def near(found: Tensor, wanted: Tensor, share: float) -> bool:
    found, wanted = found.detach(), wanted.detach()
    scale = max(1.0, float(wanted.abs().max()))
    return found.shape == wanted.shape and float((found - wanted).abs().max()) <= share * scale


@compiled
@pytest.mark.parametrize("capability", CAPABILITIES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=plain_networks(), batch=st.integers(1, 35), seed=st.integers(0, 1000), data=st.data())
def test_native_kernels_are_right(
    capability: str, made: tuple[nn.Sequential, tuple[int, ...]], batch: int, seed: int, data: st.DataObject
) -> None:
    module, shape = made
    torch.manual_seed(seed)
    x = torch.randn(batch, *shape, dtype=torch.float64)
    module = module.double()
    inner = module[:-1](x).flatten(1) if len(module) > 1 else x.flatten(1)
    chain = chain_of(module, str(len(module) - 1))
    assert chain is not None
    params = [None if name is None else dict(module.named_parameters())[name] for name in chain.names]
    weights = torch.linspace(-1, 2, batch * module[-1].out_features, dtype=torch.float64).reshape(batch, -1)
    logits = module[-1](inner)
    loss = (logits * weights).sum() + inner.square().sum() / 2
    wanted = [p is not None and data.draw(st.booleans()) for p in params]
    room = data.draw(st.integers(0, 3))
    for dtype, share in ((torch.float64, 1e-11), (torch.float32, 2e-4)):
        runner = NativeRunner(chain, shape, dtype, capability)
        own = [None if p is None else p.detach().to(dtype) for p in params]
        memory = runner.memory(batch + room)
        found, features = runner.forward(memory, x.to(dtype), own)
        assert near(found.double(), logits, share)
        assert near(features.double(), inner, share)
        if dtype == torch.float64 and any(wanted):
            asked = [p for p, want in zip(params, wanted, strict=True) if want]
            expected = torch.autograd.grad(loss, asked, materialize_grads=True)
            grads = runner.backward(memory, x.to(dtype), own, weights.to(dtype), features, wanted)
            given_back = [g for g, want in zip(grads, wanted, strict=True) if want]
            assert [g is not None for g in grads] == wanted
            for ours, theirs in zip(given_back, expected, strict=True):
                assert ours is not None
                assert near(ours, theirs, share)


@compiled
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(("batch", "inputs", "hidden"), [(5, 2100, 70), (150, 37, 1100), (1, 4099, 33)])
def test_products_of_several_blocks_are_right(capability: str, batch: int, inputs: int, hidden: int) -> None:
    """Weights too large to be packed at once, in either direction; small whole numbers add up exactly."""
    module = nn.Sequential(nn.Linear(7, inputs), nn.Linear(inputs, hidden), nn.Linear(hidden, 3))
    chain = chain_of(module, "2")
    assert chain is not None
    params = [torch.randint(-2, 3, p.shape).float().requires_grad_() for p in module.parameters()]
    named = dict(zip(dict(module.named_parameters()), params, strict=True))
    x, weights = torch.randint(-2, 3, (batch, 7)).float(), torch.randint(-2, 3, (batch, 3)).float()
    loss = (torch.func.functional_call(module, named, (x,)) * weights).sum()
    runner = NativeRunner(chain, (7,), torch.float32, capability)
    memory, own = runner.memory(batch), [p.detach() for p in params]
    runner.forward(memory, x, own)
    found = runner.backward(memory, x, own, weights, None, [True] * len(own))
    for ours, theirs in zip(found, torch.autograd.grad(loss, params), strict=True):
        assert ours is not None
        assert torch.equal(ours, theirs)


@compiled
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("pool", [(2, 1), (2, 2), (2, 3)])
@pytest.mark.parametrize("outputs", [5, 16, 40])
def test_two_rows_at_once_of_five_by_five_are_right(
    capability: str, dtype: torch.dtype, pool: tuple[int, int], outputs: int
) -> None:
    """Such convolutions take fewer multiplications where their columns are even, others the long way."""
    for height, width, padding in ((6, 10, 0), (7, 9, 1), (14, 14, 2)):
        module = nn.Sequential(nn.Conv2d(16, outputs, 5, padding=padding), nn.MaxPool2d(pool), nn.Flatten())
        features = module(torch.zeros(1, 16, height, width)).shape[1]
        module = nn.Sequential(*module, nn.Linear(features, 3)).double()
        chain = chain_of(module, "3")
        assert chain is not None
        params = [dict(module.named_parameters())[name].detach() for name in chain.names if name]
        x = torch.randn(3, 16, height, width, dtype=torch.float64)
        runner = NativeRunner(chain, (16, height, width), dtype, capability)
        _, found = runner.forward(runner.memory(3), x.to(dtype), [p.to(dtype) for p in params])
        share = 1e-13 if dtype == torch.float64 else 3e-6
        assert near(found.double(), module[:3](x), share)


@compiled
@pytest.mark.parametrize("capability", CAPABILITIES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), batch=st.integers(1, 20), padding=st.integers(0, 2), biased=st.booleans())
def test_convolutions_with_fewer_multiplications_are_right(
    capability: str, data: st.DataObject, batch: int, padding: int, biased: bool
) -> None:
    inputs, outputs = (16 * data.draw(st.integers(1, 4)) for _ in range(2))
    height, width = (data.draw(st.integers(max(1, 3 - 2 * padding), 9)) for _ in range(2))
    link = Link("w", None, inputs, outputs, (3, 3), (padding, padding))
    assert isinstance(faster(link), Winograd)
    x = channels_last(torch.randn(batch, inputs, height, width, dtype=torch.float64)).requires_grad_()
    weight = (torch.randn(outputs, inputs, 3, 3, dtype=torch.float64) / inputs**0.5).requires_grad_()
    bias = torch.randn(outputs, dtype=torch.float64, requires_grad=True) if biased else None
    y = torch.conv2d(x, weight, bias, padding=padding)
    dy = torch.randn_like(y)
    leaves = [x, weight, *([] if bias is None else [bias])]
    wanted = [y, *torch.autograd.grad(y, leaves, dy)]
    for dtype, share in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        own = Winograd(link, capability)
        args = (x.detach().to(dtype), weight.detach().to(dtype))
        found = own.convolved(*args, None if bias is None else bias.detach().to(dtype))
        slopes = own.slopes(dy.to(dtype), *args, (True, True, biased))
        assert found.is_contiguous(memory_format=torch.channels_last)
        for ours, theirs in zip((found, *slopes), wanted, strict=biased):
            assert ours is not None
            assert near(ours.double(), theirs, share)


MOVING = Norm("mean", "variance", "batches", 0.3, 1e-5)


@compiled
@pytest.mark.parametrize("capability", CAPABILITIES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), batch=st.integers(2, 70), relu=st.booleans(), train=st.booleans())
def test_batch_norm_with_what_follows_is_right(
    capability: str, data: st.DataObject, batch: int, relu: bool, train: bool
) -> None:
    channels, pool = 16 * data.draw(st.integers(1, 3)), tuple(data.draw(st.integers(1, 3)) for _ in range(2))
    height, width = (data.draw(st.integers(size, 8)) for size in pool)
    link = Link("w", "b", channels, channels, pool=(pool[0], pool[1]), relu=relu, norm=MOVING)
    assert isinstance(faster(link), FusedNorm)
    x = channels_last(torch.randn(batch, channels, height, width, dtype=torch.float64) + 3).requires_grad_()
    weight, bias = (torch.randn(channels, dtype=torch.float64).requires_grad_() for _ in range(2))
    moved = [torch.randn(channels, dtype=torch.float64), torch.rand(channels, dtype=torch.float64) + 0.5]
    before = [value.clone() for value in moved]
    y = nn.functional.batch_norm(x, *moved, weight, bias, train, MOVING.momentum, MOVING.eps)
    y = nn.functional.max_pool2d(y, pool)
    y = y.relu() if relu else y
    dy = torch.randn_like(y)
    wanted = [y, *torch.autograd.grad(y, [x, weight, bias], dy), *moved]
    for dtype, share in ((torch.float64, 1e-11), (torch.float32, 1e-4)):
        own = FusedNorm(link, MOVING, capability)
        stats = Stats(
            dict(zip(("mean", "variance"), (v.to(dtype).clone() for v in before), strict=True)), train
        )
        taken, scale, shift = (value.detach().to(dtype) for value in (x, weight, bias))
        made, kept = own.forward(taken, scale, shift, stats)
        for ours, theirs in zip((made, *stats.buffers.values()), (wanted[0], *wanted[4:]), strict=True):
            assert near(ours.double(), theirs, share)
        if dtype == torch.float64:  # with fewer digits pooling may take another of two near values
            slopes = own.backward(dy, Trace(taken, made, kept), scale, stats, (True, True, True))
            for slope, theirs in zip(slopes, wanted[1:4], strict=True):
                assert slope is not None
                assert near(slope, theirs, share)


@compiled
@pytest.mark.parametrize("place", range(4))
def test_no_number_survives_batch_norm_and_pooling(place: int) -> None:
    link = Link("w", "b", 16, 16, pool=(2, 2), relu=True, norm=MOVING)
    x = torch.ones(1, 16, 2, 2).index_fill(3, torch.tensor(place % 2), 2.0)
    x[..., place // 2, place % 2] = torch.nan
    stats = Stats({"mean": torch.zeros(16), "variance": torch.ones(16)}, False)
    made, _ = FusedNorm(link, MOVING).forward(channels_last(x), torch.ones(16), torch.zeros(16), stats)
    assert made.isnan().all()


@compiled
def test_moments_of_numbers_far_from_zero() -> None:
    link = Link("w", "b", 16, 16, norm=MOVING)
    x = channels_last(1000 + torch.randn(400, 16, 9, 9))
    _, (mean, inverse, *_) = FusedNorm(link, MOVING).forward(
        x, torch.ones(16), torch.zeros(16), Stats({"mean": torch.zeros(16), "variance": torch.ones(16)}, True)
    )
    wanted = x.double().var((0, 2, 3), unbiased=False)
    assert near(inverse.double() ** -2 - MOVING.eps, wanted, 1e-5)
    assert near(mean.double(), x.double().mean((0, 2, 3)), 1e-7)


@pytest.mark.parametrize(
    "link",
    [
        Link("w", "b", 24, 24, norm=MOVING),
        Link("w", None, 16, 16, (3, 3), (1, 2)),
        Link("w", None, 16, 16, (3, 3), (3, 3)),
        Link("w", None, 16, 16, (5, 5), (1, 1)),
        Link("w", None, 16, 24, (3, 3), (1, 1)),
        Link("w", None, 1, 16, (3, 3), (1, 1)),
    ],
)
def test_other_links_are_left_to_torch(link: Link) -> None:
    assert faster(link) is None


@fast
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=plain_networks(norms=True), batch=st.integers(1, 20), train=st.booleans(), data=st.data())
def test_backends_agree_with_autograd(
    backend: Backend,
    made: tuple[nn.Sequential, tuple[int, ...]],
    batch: int,
    train: bool,
    data: st.DataObject,
) -> None:
    module, shape = made
    model = from_module(lambda: module)
    train = train and (batch > 1 or not model.buffers)  # one value has no deviation
    share = 1e-9 if model.buffers else 1e-10  # dividing by a small deviation magnifies the last digits
    names = [name for name, _ in module.named_parameters()]
    params = cast(
        {name: value.detach().clone() for name, value in module.state_dict().items()}, torch.float64
    )
    some = [name for name in names if data.draw(st.booleans())] or names
    x = torch.randn(batch, *shape, dtype=torch.float64)
    before = {name: value.clone() for name, value in params.items()}
    expected = slopes(model, params, x, some, train)
    with using(backend):
        found = slopes(model, params, x, some, train)
    for ours, theirs in zip(found, expected, strict=True):
        assert near(ours, theirs, share)
    assert all(torch.equal(params[name], value) for name, value in before.items()), (
        "nothing is changed in place"
    )


@fast
def test_batch_norm_looks_at_the_whole_batch(backend: Backend) -> None:
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    model, x = network(*layers), torch.randn(300, 1, 6, 6)
    params = model.init(0)
    for train in (True, False):
        expected = model.forward(params, x, train)
        with using(backend), torch.no_grad():
            found = model.forward(params, x, train)
        assert near(found.logits, expected.logits, 1e-5)
        assert found.buffers.keys() == expected.buffers.keys()
        assert all(near(value, expected.buffers[name], 1e-5) for name, value in found.buffers.items())


@fast
def test_batch_norm_of_a_single_value_is_refused_as_torch_does(backend: Backend) -> None:
    model = network(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3))
    with using(backend), pytest.raises(ValueError, match="more than 1 value"):
        model.forward(model.init(0), torch.randn(1, 1, 3, 3), True)


def small(outputs: int) -> nn.Module:
    """A plain network for the pictures of the contract's setting."""
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 2, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, outputs)),
    )


@cache
def run(method: str, backend: Backend, dtype: torch.dtype, rounds: int) -> tuple[dict[str, Tree], Serial]:
    preset = PRESETS[method]
    solver = SGD(lr=0.05, momentum=0.9, weight_decay=0.01)
    model = preset.network.build(factory(small), world.CLASSES)
    bound = Algorithm(preset, model, solver, len(world.COUNTS), seed=world.SEED, dtype=dtype)
    engine = Serial(bound, world.federation(), world.TRAINING, backend=backend)
    return advance(bound, engine, bound.init(), range(rounds))[0], engine


@fast
@pytest.mark.parametrize("method", PRESETS)
def test_every_preset_on_every_backend(method: str, backend: Backend) -> None:
    for dtype, rounds, limit in ((torch.float64, 3, 1e-8), (torch.float32, 1, 1e-5)):
        server, engine = run(method, backend, dtype, rounds)
        expected, reference = run(method, "autograd", dtype, rounds)
        for part, entries in expected.items():
            assert gap(server[part], entries) < limit, part
        for client, state in reference.kept.items():
            assert all(gap(engine.kept[client][part], entries) < limit for part, entries in state.items())


@fast
def test_a_plain_network_takes_the_short_way(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this the comparisons above would compare torch with itself."""
    kind = {"torch": TorchRunner, "native": NativeRunner if build.prepare("native") else TorchRunner}[backend]
    calls = []
    before = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, *a: calls.append(1) or before(self, *a))
    model = network(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    with using(backend):
        model.forward(model.init(0), torch.zeros(5, 2, 2), True)
    assert calls == [1]


CHAINS = {
    "two layers": [nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)],
    "nested": [nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU()), nn.Sequential(nn.Flatten(), nn.Linear(2, 2))],
    "ReLU first": [nn.Conv2d(1, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2, 2)],
}
OTHERS = {
    "tanh": [nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)],
    "batch-norm first": [nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, 2)],
    "batch-norm after ReLU": [
        *(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.BatchNorm2d(2)),
        *(nn.Flatten(), nn.Linear(8, 2)),
    ],
    "batch-norm twice": [
        *(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.BatchNorm2d(2)),
        *(nn.Flatten(), nn.Linear(8, 2)),
    ],
    "batch-norm without memory": [
        *(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2, track_running_stats=False)),
        *(nn.Flatten(), nn.Linear(8, 2)),
    ],
    "batch-norm with a mean of all": [
        *(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2, momentum=None)),
        *(nn.Flatten(), nn.Linear(8, 2)),
    ],
    "dropout": [nn.Flatten(), nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 2)],
    "stride": [nn.Conv2d(1, 2, 1, stride=2), nn.Flatten(), nn.Linear(2, 2)],
    "dilation": [
        nn.Conv2d(1, 2, 2, dilation=1, groups=1, padding_mode="circular"),
        nn.Flatten(),
        nn.Linear(2, 2),
    ],
    "groups": [nn.Conv2d(2, 2, 1, groups=2), nn.Flatten(), nn.Linear(8, 2)],
    "overlapping pooling": [nn.Conv2d(1, 2, 1), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(2, 2)],
    "pooling twice": [nn.Conv2d(1, 2, 1), nn.MaxPool2d(2), nn.MaxPool2d(1), nn.Flatten(), nn.Linear(2, 2)],
    "pooling first": [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1, 2)],
    "same padding": [nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten(), nn.Linear(8, 2)],
    "no flattening": [nn.Conv2d(1, 2, 1), nn.Linear(2, 2)],
}


@pytest.mark.parametrize("name", CHAINS)
def test_plain_networks_are_known(name: str) -> None:
    module = nn.Sequential(*CHAINS[name])
    last = [key for key, layer in module.named_modules() if isinstance(layer, nn.Linear)][-1]
    assert chain_of(module, last) is not None


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left_to_torch(name: str) -> None:
    module = nn.Sequential(*OTHERS[name])
    assert chain_of(module, str(len(module) - 1)) is None


def test_a_head_that_begins_with_something_else_has_other_features() -> None:
    head = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))
    assert chain_of(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), head), "2") is None
    whole = chain_of(
        nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU())), "2"
    )
    assert whole is not None
    assert whole.tap == 1


def test_every_network_of_the_papers_but_those_with_detours_is_plain() -> None:
    shapes = {"image": (3, 32, 32), "grey": (1, 28, 28), "speech": (1, 50, 16), "signal": (2, 60)}
    plain = set()
    for name, entry in models.registry.MODELS.items():
        shape = next(shape for shape in shapes.values() if entry.fits(shape))
        module = models.network(name).module(shape, 10)
        if chain_of(module, "head") is not None:
            plain.add(name)
        else:
            assert "resnet" in name, name
    assert {"fedabc-mlp", "fedabc-cnn", "fedlc-cnn-28", "fedova-kws", "bench-cnn", "map-vgg8-bn"} <= plain


@fast
def test_two_passes_at_once_do_not_overwrite_each_other(backend: Backend) -> None:
    """As with distillation, where a second network runs between the first one's two passes."""
    model = from_module(lambda: small(4))
    params, other = model.init(0), model.init(1)
    x = torch.randn(6, 1, 3, 3)
    with using(backend):
        first, second = _leaves(params), _leaves(other)
        one, two = model.forward(first, x, True).logits, model.forward(second, x + 1, True).logits
        teacher = model.forward(other, x - 1, False).logits
        found = [
            torch.autograd.grad(two.square().sum(), list(second.values())),
            torch.autograd.grad(one.square().sum(), list(first.values())),
        ]
    for leaves, at, grads in ((_leaves(other), x + 1, found[0]), (_leaves(params), x, found[1])):
        loss = model.forward(leaves, at, True).logits.square().sum()
        for ours, theirs in zip(grads, torch.autograd.grad(loss, list(leaves.values())), strict=True):
            assert near(ours, theirs, 1e-4)
    assert near(teacher, model.forward(other, x - 1, False).logits, 1e-5)


def _leaves(params: Tree) -> Tree:
    return {name: value.detach().requires_grad_() for name, value in params.items()}


@fast
def test_buffers_are_used_again_and_a_pass_only_once(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    kind = NativeRunner if backend == "native" and build.prepare("native") else TorchRunner
    before = kind.memory
    monkeypatch.setattr(kind, "memory", lambda self, batch: made.append(batch) or before(self, batch))
    model, x = from_module(lambda: small(4)), torch.randn(6, 1, 3, 3)
    leaves = _leaves(model.init(0))
    with using(backend):
        for size in (6, 6, 2, 6):
            loss = model.forward(leaves, x[:size], True).logits.sum()
            torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)
            with pytest.raises(RuntimeError, match="differentiated once"):
                torch.autograd.grad(loss, list(leaves.values()))
        loss = model.forward(leaves, x, True).logits.square().sum()
        with pytest.raises(RuntimeError, match="differentiated once"):
            torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
    assert made == [6]


@fast
def test_many_examples_without_gradients_go_in_pieces(backend: Backend) -> None:
    model, x = from_module(lambda: small(4)), torch.randn(1000, 1, 3, 3)
    params = model.init(0)
    expected = model.forward(params, x, False)
    with using(backend), torch.no_grad():
        found = model.forward(params, x, False)
    assert near(found.logits, expected.logits, 1e-5)
    assert near(found.features, expected.features, 1e-5)


@fast
def test_what_the_kernels_cannot_do_torch_does(backend: Backend) -> None:
    model = from_module(lambda: small(4))
    params, x = model.init(0), torch.randn(3, 1, 3, 3)
    expected = model.forward(params, x, True).logits
    with using(backend):
        stacked = {name: torch.stack([value, value]) for name, value in params.items()}
        mapped = torch.func.vmap(lambda p: model.forward(p, x, True).logits)(stacked)
        assert near(mapped[1], expected, 1e-5)
        inputs = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model.forward(params, inputs, True).logits.sum(), inputs)
        assert slope.abs().sum() > 0
        turned = {
            name: value.t().contiguous().t() if value.ndim == 2 else value for name, value in params.items()
        }
        assert near(model.forward(turned, x, True).logits, expected, 1e-5)
        assert len(model.forward(params, x[:0], True).logits) == 0
        with pytest.raises(RuntimeError):
            model.forward({**params, "4.weight": torch.zeros(2, 2)}, x, True)
        with pytest.raises(RuntimeError):
            model.forward(params, torch.randn(3, 1, 5, 5), True)


@fast
def test_a_number_that_is_none_stays_one(backend: Backend) -> None:
    model = network(nn.Conv2d(1, 2, 1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2))
    x = torch.ones(1, 1, 2, 2)
    for place in range(4):
        spoilt = x.clone().reshape(-1).index_fill(0, torch.tensor(place), torch.nan).reshape(x.shape)
        with using(backend):
            assert model.forward(model.init(0), spoilt, True).logits.isnan().all()


@fast
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", [math.inf, 100.0, 0.5])
def test_a_step_is_torchs_step(backend: Backend, momentum: float, decay: float, clip: float) -> None:
    torch.manual_seed(0)
    params = {"a": torch.randn(50, 7), "b": torch.randn(3), "c": torch.randn(())}
    theirs = [nn.Parameter(value.clone()) for value in params.values()]
    optimiser = torch.optim.SGD(theirs, lr=0.1, momentum=momentum, weight_decay=decay)
    memory = {name: torch.zeros_like(value) for name, value in params.items()} if momentum else {}
    with using(backend):
        for _ in range(3):
            direction = {name: torch.randn_like(value) for name, value in params.items()}
            for parameter, slope in zip(theirs, direction.values(), strict=True):
                parameter.grad = slope.clone()
            nn.utils.clip_grad_norm_(theirs, clip)
            optimiser.step()
            before = [value.clone() for value in (*params.values(), *memory.values())]
            new, remembered = descend(params, direction, memory, Rates(0.1, momentum, decay, clip))
            assert all(map(torch.equal, (*params.values(), *memory.values()), before)), (
                "a dead step keeps both"
            )
            params, memory = new, remembered
    for ours, other in zip(params.values(), theirs, strict=True):
        assert near(ours, other.detach(), 1e-6)


@fast
def test_a_clipped_direction_that_is_no_number_stays_none(backend: Backend) -> None:
    params = {"a": torch.zeros(200)}
    for bad in (torch.nan, torch.inf):
        slopes = {"a": torch.ones(200).index_fill(0, torch.tensor(0), bad)}
        with using(backend):
            moved, _ = descend(params, slopes, {}, Rates(0.1, 0.0, 0.0, clip=1.0))
        assert moved["a"][0].isnan()


@fast
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_direction_that_is_something_else_too_stays_what_it_is(backend: Backend, momentum: float) -> None:
    """The native step writes over the gradient, which must then belong to nobody else."""
    shared = torch.ones(3)
    for direction in ({"a": shared, "b": shared}, {"a": torch.ones(3), "b": None}):
        params = {"a": torch.zeros(3), "b": torch.full((3,), 2.0)}
        slopes = {n: params[n] if d is None else d for n, d in direction.items()}
        memory = {n: torch.zeros(3) for n in params} if momentum else {}
        with using(backend):
            moved, _ = descend(params, slopes, memory, Rates(0.5, momentum, 0.0))
        assert moved["a"].tolist() == [-0.5] * 3
        assert moved["b"].tolist() == [1.5 if direction["b"] is shared else 1.0] * 3
        assert params["b"].tolist() == [2.0] * 3
        assert shared.tolist() == [1.0] * 3


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing compiled yet, and no other compiler than what a test puts there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CXX", raising=False)
    (tmp_path / "bin").mkdir()
    build.library.cache_clear()
    yield tmp_path
    build.library.cache_clear()


def test_without_a_compiler_there_are_torchs_operations(elsewhere: Path) -> None:
    assert not build.ready()
    assert not build.prepare("native")
    assert "no C++ compiler" in build.status()
    shortcut = Shortcut(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), "1")
    params = {"1.weight": torch.ones(2, 4), "1.bias": torch.zeros(2)}
    with using("native"):
        out = shortcut(params, torch.ones(3, 2, 2), True)
        moved, _ = descend(params, params, {}, Rates(0.1, 0.0, 0.0))
    assert out is not None
    assert out.logits.tolist() == [[4.0, 4.0]] * 3
    assert near(moved["1.weight"], torch.full((2, 4), 0.9), 1e-6)


def fake_compiler(folder: Path, script: str) -> Path:
    path = folder / "bin" / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_compiler_that_fails_is_named(elsewhere: Path) -> None:
    fake_compiler(elsewhere, "echo 'no such option' >&2; exit 1")
    assert not build.prepare("native")
    assert "no such option" in build.status()
    assert list((elsewhere / "cache" / "fedskew").iterdir()) == [], "nothing half-made is left"


def test_a_library_that_cannot_be_loaded_is_no_library(elsewhere: Path) -> None:
    fake_compiler(elsewhere, "exit 0")
    assert not build.prepare("native")
    assert "cannot be loaded" in build.status()


@compiled
def test_what_is_compiled_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path(build.library()._name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", str(tmp_path / "cxx"))
    log = tmp_path / "log"
    (tmp_path / "cxx").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exit 0\necho x >> {log}\nfor out in "$@"; do :; done\ncp {real} "$out"\n'
    )
    (tmp_path / "cxx").chmod(0o755)
    build.library.cache_clear()
    assert not build.ready()
    for _ in range(2):
        assert isinstance(build.library(), ctypes.CDLL)
        assert build.ready()
        build.library.cache_clear()
    assert log.read_text() == "x\n"
    monkeypatch.undo()
    build.library.cache_clear()


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("bytes_", [16, 32, 64])
def test_no_path_reads_or_writes_beyond_its_buffers(bytes_: int, tmp_path: Path) -> None:
    """Random chains under the sanitizers; paths this processor lacks are compiled only."""
    source = Path(__file__).with_name("kernels_driver.cpp")
    kernels = Path(build.__file__).with_name("native.cpp")
    flags = {16: (), 32: ("-mavx2", "-mfma"), 64: ("-mavx512f", "-mavx512vl", "-mavx512dq", "-mfma")}[bytes_]
    common = ("-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program = tmp_path / "driver"
    command = ["c++", *common, *flags, f"-DVECTOR_BYTES={bytes_}", f'-DKERNELS="{kernels}"']
    subprocess.run([*command, str(source), "-o", str(program)], check=True)
    able = {"DEFAULT": 16, "AVX2": 32, "AVX512": 64}.get(torch.backends.cpu.get_cpu_capability(), 16)
    if bytes_ <= able:
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        subprocess.run([str(program), "300"], check=True, env=environment, timeout=600)
