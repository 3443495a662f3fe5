"""Every loss against a loop written from its paper's formula, and the properties all of them share."""

import inspect
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedskew import losses
from fedskew.errors import ConfigError

BATCH, CLASSES = 7, 5
Loss = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor | None], Tensor]
Rows = list[list[float]]
Oracle = Callable[[Rows, list[int], list[float], Rows], float]

# ---------------------------------------------------------------- oracles: plain loops over floats


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def lse(values: Iterable[float]) -> float:
    values = list(values)
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values))


def softmax(values: list[float]) -> list[float]:
    return [math.exp(v - lse(values)) for v in values]


def average(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)


def calibrated(margin: Callable[[float, float], float], others: bool = False, floor: float = 0.0) -> Oracle:
    """mean of log sum exp u - u_y, u = z - margin(n, total), over classes with n > 0 (or n floored)."""

    def loss(z: Rows, y: list[int], n: list[float], _: Rows) -> float:
        sizes = [max(v, floor) for v in n]
        total = 0.0
        for row, label in zip(z, y, strict=True):
            u = {c: row[c] - margin(size, sum(n)) for c, size in enumerate(sizes) if size > 0}
            rivals = [v for c, v in u.items() if not (others and c == label)]
            total += lse(rivals) - u[label] if rivals else 0.0
        return total / len(z)

    return loss


def restricted(scale: Callable[[float, float], float]) -> Oracle:
    def loss(z: Rows, y: list[int], n: list[float], _: Rows) -> float:
        scaled = [[scale(n[c], max(n)) * v for c, v in enumerate(row)] for row in z]
        return average(lse(row) - row[label] for row, label in zip(scaled, y, strict=True))

    return loss


def one_vs_all_focal(mp: float, mn: float, mnn: float, sigma: float) -> Oracle:
    def loss(z: Rows, y: list[int], n: list[float], _: Rows) -> float:
        total = 0.0
        for row, label in zip(z, y, strict=True):
            for c, logit in enumerate(row):
                q = sigmoid(logit)
                if c == label and q < mp:
                    total += (1 - q) ** sigma * softplus(-logit)
                if c != label and q > (mn if n[c] > 0 else mnn):
                    total += q**sigma * softplus(logit)
        return total / len(z)

    return loss


def components(z: Rows, y: list[int], n: list[float], _: Rows) -> float:
    """Component l of a one-vs-all net answers for class C-1-l; only classes with n > 0 are owned."""
    total = 0.0
    for component in range(CLASSES):
        c = CLASSES - 1 - component
        if n[c] > 0:
            total += average(
                softplus(-r[component] if k == c else r[component]) for r, k in zip(z, y, strict=True)
            )
    return total


def components_softmax2(z: Rows, y: list[int], n: list[float], no: Rows) -> float:
    return components([[a - b for a, b in zip(*p, strict=True)] for p in zip(z, no, strict=True)], y, n, no)


def kl(temperature: float, factor: float) -> Oracle:
    def loss(z: Rows, y: list[int], n: list[float], teacher: Rows) -> float:
        total = 0.0
        for s, t in zip(z, teacher, strict=True):
            s, t = [v / temperature for v in s], [v / temperature for v in t]
            total += sum(p * ((a - lse(t)) - (b - lse(s))) for p, a, b in zip(softmax(t), t, s, strict=True))
        return factor * total / len(z)

    return loss


def author_kd(z: Rows, y: list[int], n: list[float], teacher: Rows) -> float:
    return average(
        sum(p * (lse(s) - v) for p, v in zip(softmax([a / 4 for a in t]), s, strict=True))
        for s, t in zip(z, teacher, strict=True)
    )


def squared(a: list[float], b: list[float]) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def bandwidth(x: Rows, t: Rows) -> float:
    n = 2 * len(x)
    return sum(squared(a, b) for a in x + t for b in x + t) / (n * n - n) + 1e-8


def mmd_with(width: float, x: Rows, t: Rows) -> float:
    def k(a: list[float], b: list[float]) -> float:
        return sum(math.exp(-squared(a, b) / (width / 4 * 2**j)) for j in range(5))

    size = range(len(x))
    pairs = (k(x[i], x[j]) + k(t[i], t[j]) - k(x[i], t[j]) - k(t[i], x[j]) for i in size for j in size)
    return sum(pairs) / len(x) ** 2


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(
        squared(a, [0] * len(a)) * squared(b, [0] * len(b))
    )


def moon(z: Rows, y: list[int], n: list[float], received: Rows) -> float:
    total = 0.0
    for f, r in zip(z, received, strict=True):
        near, far = cosine(f, r) / 0.5, cosine(f, r[::-1]) / 0.5
        total -= near - lse([near, far])
    return total / len(z)


def prototypes_of(counts: Tensor, dtype: torch.dtype) -> Tensor:
    return counts.to(dtype)[:, None] * torch.linspace(-1, 1, CLASSES, dtype=dtype) / 3


def fedproto(z: Rows, y: list[int], n: list[float], _: Rows) -> float:
    p = [[n[c] * (-1 + 2 * k / (CLASSES - 1)) / 3 for k in range(CLASSES)] for c in range(CLASSES)]
    used = [(f, p[c]) for f, c in zip(z, y, strict=True) if n[c] > 1]
    return average(squared(f, q) for f, q in used) if used else 0.0


# ---------------------------------------------------------------- the table: name -> (loss, oracle)


def counted(loss: Callable[..., Tensor], **settings: Any) -> Loss:
    return lambda z, y, n, aux, live: loss(z, y, n, live=live, validate=False, **settings)


def ova(z: Tensor, y: Tensor, n: Tensor, aux: Tensor, live: Tensor | None, **settings: Any) -> Tensor:
    classes = torch.arange(CLASSES - 1, -1, -1)
    return losses.one_vs_all(z, y, classes, owned=n.flip(-1) > 0, live=live, **settings)


QUARTER = calibrated(lambda n, total: 0.7 * n**-0.25)
CASES: dict[str, tuple[Loss, Oracle]] = {
    "cross_entropy": (
        lambda z, y, n, aux, live: losses.cross_entropy(z, y, live=live),
        restricted(lambda n, top: 1.0),
    ),
    "fedabc": (counted(losses.fedabc), one_vs_all_focal(0.75, 0.25, 0.30, 2)),
    "fedabc cifar": (
        counted(losses.fedabc, mp=0.85, mn=0.2, sigma=0.5),
        one_vs_all_focal(0.85, 0.2, 0.3, 0.5),
    ),
    "fedabc focal": (counted(losses.fedabc, drop=False), one_vs_all_focal(2, -1, -1, 2)),
    "fedabc drop": (counted(losses.fedabc, sigma=0), one_vs_all_focal(0.75, 0.25, 0.3, 0)),
    "fedabc plain": (counted(losses.fedabc, sigma=0, drop=False), one_vs_all_focal(2, -1, -1, 0)),
    "fedabc detached": (counted(losses.fedabc, detach_focal=True), one_vs_all_focal(0.75, 0.25, 0.3, 2)),
    "fedlc": (counted(losses.fedlc, tau=0.7), QUARTER),
    "fedlc others": (
        counted(losses.fedlc, tau=0.7, denominator="others"),
        calibrated(lambda n, total: 0.7 * n**-0.25, others=True),
    ),
    "fedlc prior": (
        counted(losses.fedlc, tau=0.7, margin="log_prior"),
        calibrated(lambda n, total: -0.7 * math.log(n / total)),
    ),
    "fedlc clip": (
        counted(losses.fedlc, missing="clip", eps=1e-2),
        calibrated(lambda n, total: n**-0.25, floor=1e-2),
    ),
    "masked_softmax": (counted(losses.masked_softmax), calibrated(lambda n, total: 0.0)),
    "balanced_softmax": (
        counted(losses.balanced_softmax, gamma=0.5),
        calibrated(lambda n, total: -0.5 * math.log(n)),
    ),
    "restricted_softmax": (
        counted(losses.restricted_softmax, alpha=0.3),
        restricted(lambda n, top: 1.0 if n > 0 else 0.3),
    ),
    "restricted_softmax soft": (
        counted(losses.restricted_softmax, alpha=0.3, mode="soft"),
        restricted(lambda n, top: 0.3 + 0.7 * n / top),
    ),
    "binary_cross_entropy": (
        lambda z, y, n, aux, live: losses.binary_cross_entropy(z[:, 0], y == 0, live=live),
        lambda z, y, n, aux: average(softplus(-r[0] if c == 0 else r[0]) for r, c in zip(z, y, strict=True)),
    ),
    "one_vs_all": (ova, components),
    "one_vs_all softmax2": (
        lambda z, y, n, aux, live: ova(torch.stack([aux, z], -1), y, n, aux, live, head="softmax2"),
        components_softmax2,
    ),
    "distillation": (
        lambda z, y, n, aux, live: losses.distillation(z, aux, live=live),
        kl(4, 16),
    ),
    "distillation no_T2": (
        lambda z, y, n, aux, live: losses.distillation(z, aux, temperature=2, form="no_T2", live=live),
        kl(2, 1),
    ),
    "distillation author": (
        lambda z, y, n, aux, live: losses.distillation(z, aux, form="author", live=live),
        author_kd,
    ),
    "mmd": (
        lambda z, y, n, aux, live: losses.mmd(z, aux, live=live),
        lambda z, y, n, aux: mmd_with(bandwidth(z, aux), z, aux),
    ),
    "discriminator": (
        lambda z, y, n, aux, live: losses.discriminator(z[:, 0], z[:, 1], live=live),
        lambda z, y, n, aux: (
            average(-math.log(sigmoid(r[0])) - math.log(sigmoid(-r[1])) for r in z)
            if max(abs(v) for r in z for v in r) < 100
            else average(softplus(-r[0]) + softplus(r[1]) for r in z)
        ),
    ),
    "discriminator printed": (
        lambda z, y, n, aux, live: losses.discriminator(z[:, 0], z[:, 1], form="printed", live=live),
        lambda z, y, n, aux: average(-softplus(r[0]) - softplus(-r[1]) for r in z),
    ),
    "fool": (
        lambda z, y, n, aux, live: losses.fool(z[:, 0], live=live),
        lambda z, y, n, aux: average(-softplus(r[0]) for r in z),
    ),
    "fool nonsaturating": (
        lambda z, y, n, aux, live: losses.fool(z[:, 0], form="nonsaturating", live=live),
        lambda z, y, n, aux: average(softplus(-r[0]) for r in z),
    ),
    "contrastive": (
        lambda z, y, n, aux, live: losses.contrastive(z, aux, aux.flip(-1), live=live),
        moon,
    ),
    "prototype": (
        lambda z, y, n, aux, live: losses.prototype(z, y, prototypes_of(n, z.dtype), n > 1, live=live),
        fedproto,
    ),
}
# Here the gradient is not that of the value: a factor of it is constant by definition.
HELD_CONSTANT = {"mmd", "fedabc detached"}
every_loss = pytest.mark.parametrize("name", CASES)


def draw(
    seed: int, scale: float = 2.0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, labels, counts and a second [B,C] tensor of a client that misses one or two classes."""
    g = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 5, (CLASSES,), generator=g)
    counts[torch.randperm(CLASSES, generator=g)[: 1 + seed % 2]] = 0
    labels = torch.multinomial(counts.double(), BATCH, replacement=True, generator=g)
    z, aux = (torch.randn(BATCH, CLASSES, generator=g, dtype=dtype) * scale for _ in range(2))
    return z, labels, counts, aux


def by_loop(oracle: Oracle, z: Tensor, y: Tensor, n: Tensor, aux: Tensor) -> float:
    return oracle(z.tolist(), y.tolist(), [float(v) for v in n.tolist()], aux.tolist())


def value_and_grad(loss: Loss, z: Tensor, *rest: Tensor | None) -> tuple[Tensor, Tensor]:
    leaf = z.clone().requires_grad_()
    value = loss(leaf, *rest)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


# ---------------------------------------------------------------- properties of all


@every_loss
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_value_is_the_formula(name: str, seed: int) -> None:
    loss, oracle = CASES[name]
    data = draw(seed)
    value = loss(*data, None)
    assert value.shape == ()
    assert value.item() == pytest.approx(by_loop(oracle, *data), rel=1e-10, abs=1e-12)


@every_loss
def test_float32_stays_float32_and_inputs_stay_as_they_were(name: str) -> None:
    loss, oracle = CASES[name]
    data = draw(4, dtype=torch.float32)
    before = [t.clone() for t in data]
    value, gradient = value_and_grad(loss, *data, None)
    assert value.dtype == gradient.dtype == torch.float32
    assert value.item() == pytest.approx(by_loop(oracle, *data), rel=2e-5, abs=2e-6)
    assert all(torch.equal(a, b) for a, b in zip(before, data, strict=True))


@pytest.mark.parametrize("name", [name for name in CASES if name not in HELD_CONSTANT])
@pytest.mark.parametrize("seed", [0, 1])
def test_gradient_is_that_of_the_value(name: str, seed: int) -> None:
    z, *rest = draw(seed)
    live = torch.tensor([1, 1, 0, 1, 1, 0, 1]).bool()
    assert torch.autograd.gradcheck(lambda x: CASES[name][0](x, *rest, live), z.requires_grad_())


@every_loss
@pytest.mark.parametrize("as_float", [False, True])
def test_mask_is_a_slice(name: str, as_float: bool) -> None:
    loss, _ = CASES[name]
    z, y, n, aux = draw(6)
    keep = torch.tensor([1, 0, 1, 1, 0, 1, 0]).bool()
    expected, slope = value_and_grad(loss, z[keep], y[keep], n, aux[keep], None)
    padded = torch.where(keep, y, -1)
    value, gradient = value_and_grad(loss, z, padded, n, aux, keep.double() if as_float else keep)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient[keep], slope)
    assert (gradient[~keep] == 0).all()


@every_loss
def test_padding_may_have_a_label_the_client_misses(name: str) -> None:
    loss, _ = CASES[name]
    z, y, n, aux = draw(6, dtype=torch.float32)
    keep = torch.arange(BATCH) > 1
    expected, slope = value_and_grad(loss, z, y, n, aux, keep)
    absent = int((n == 0).nonzero()[0])
    value, gradient = value_and_grad(loss, z, torch.where(keep, y, absent), n, aux, keep)
    assert torch.equal(value, expected)
    assert torch.equal(gradient, slope)


@every_loss
@pytest.mark.parametrize("has_classes", [True, False])
def test_nothing_live_gives_nothing(name: str, has_classes: bool) -> None:
    z, y, n, aux = draw(1, dtype=torch.float32)
    nothing = torch.zeros(BATCH, dtype=torch.bool)
    value, gradient = value_and_grad(CASES[name][0], z, y, n if has_classes else 0 * n, aux, nothing)
    assert value == 0
    assert (gradient == 0).all()


@every_loss
def test_vmap_of_grad_is_a_loop(name: str) -> None:
    loss, _ = CASES[name]
    clients = [draw(seed, dtype=torch.float32) for seed in range(4)]
    live = torch.rand(4, BATCH, generator=torch.Generator().manual_seed(0)) > 0.3
    live[3] = False
    stacked = [torch.stack(column) for column in zip(*clients, strict=True)]
    gradients, values = torch.func.vmap(torch.func.grad_and_value(loss))(*stacked, live)
    for k, client in enumerate(clients):
        value, gradient = value_and_grad(loss, *client, live[k])
        torch.testing.assert_close(values[k], value)
        torch.testing.assert_close(gradients[k], gradient)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_extreme_logits(name: str, dtype: torch.dtype, seed: int) -> None:
    loss, oracle = CASES[name]
    z, y, n, aux = draw(seed, dtype=dtype)
    z, aux = 1e4 * z.sign(), 1e4 * aux.sign()
    z[0] = 1e4
    aux[1] = z[1]
    value, gradient = value_and_grad(loss, z, y, n, aux, None)
    assert value.item() == pytest.approx(by_loop(oracle, z, y, n, aux), rel=1e-5, abs=1e-5)
    assert gradient.isfinite().all()


def test_exports() -> None:
    assert sorted(losses.__all__) == losses.__all__
    for name in losses.__all__:
        assert inspect.isfunction(getattr(losses, name))
        assert getattr(losses, name).__doc__


@pytest.mark.parametrize(
    ("call", "choices"),
    [
        (partial(losses.fedlc, margin="eighth"), "log_prior, quarter"),
        (partial(losses.fedlc, denominator="none"), "all, others"),
        (partial(losses.fedlc, missing="drop"), "clip, mask"),
        (partial(losses.restricted_softmax, mode="medium"), "hard, soft"),
        (lambda z, y, n: losses.one_vs_all(z, y, n, head="tanh"), "sigmoid, softmax2"),
        (lambda z, y, n: losses.distillation(z, z, form="T"), "author, hinton, no_T2"),
        (lambda z, y, n: losses.discriminator(z, z, form="hinge"), "bce, printed"),
        (lambda z, y, n: losses.fool(z, form="bce"), "nonsaturating, printed"),
        (lambda z, y, n: losses.prototype(z, y, z, n > 0, distance="cosine"), "mean, sum"),
    ],
)
def test_unknown_choice_lists_the_choices(call: Callable[..., Tensor], choices: str) -> None:
    with pytest.raises(ConfigError, match=choices):
        call(torch.zeros(1, 2), torch.tensor([0]), torch.ones(2))


# ---------------------------------------------------------------- labels and counts

needs_counts = pytest.mark.parametrize(
    "loss",
    [
        losses.fedabc,
        losses.fedlc,
        partial(losses.fedlc, missing="clip"),
        losses.masked_softmax,
        losses.balanced_softmax,
        losses.restricted_softmax,
    ],
)


@needs_counts
def test_labels_and_counts_may_be_lists_or_arrays(loss: Callable[..., Tensor]) -> None:
    z, labels, counts = torch.randn(3, 3), [0, 2, 2], [4, 0, 1]
    wanted = loss(z, torch.tensor(labels), torch.tensor(counts))
    assert torch.equal(loss(z, labels, counts), wanted)
    assert torch.equal(loss(z, np.array(labels), np.array(counts)), wanted)


@needs_counts
def test_a_label_of_a_missing_class_is_an_error(loss: Callable[..., Tensor]) -> None:
    z, counts = torch.zeros(2, 3), torch.tensor([4, 0, 1])
    with pytest.raises(ValueError, match="label 1 but counts says"):
        loss(z, torch.tensor([0, 1]), counts)
    loss(z, torch.tensor([0, 1]), counts, live=torch.tensor([True, False]))
    loss(z, torch.tensor([0, 2]), counts)


@needs_counts
@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_outside_the_classes_is_an_error(loss: Callable[..., Tensor], label: int) -> None:
    z, counts = torch.zeros(2, 3), torch.ones(3)
    with pytest.raises(ValueError, match=f"label {label} is none of the 3 classes"):
        loss(z, torch.tensor([0, label]), counts)
    loss(z, torch.tensor([0, label]), counts, live=torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize("label", [-100, -1, 3])
def test_no_label_is_left_out(label: int) -> None:
    with pytest.raises(IndexError, match="out of"):
        losses.cross_entropy(torch.zeros(2, 3), torch.tensor([0, label]))
    with pytest.raises(IndexError, match="out of range"):
        losses.prototype(torch.zeros(2, 4), torch.tensor([0, label]), torch.zeros(3, 4), torch.ones(3))


WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32]


@needs_counts
@pytest.mark.parametrize("dtype", WHOLE)
def test_labels_may_be_of_any_whole_type(loss: Callable[..., Tensor], dtype: torch.dtype) -> None:
    z, labels, counts = torch.randn(3, 3), torch.tensor([2, 2, 2]), torch.tensor([5, 0, 7])
    assert loss(z, labels.to(dtype), counts) == loss(z, labels, counts)
    assert losses.cross_entropy(z, labels.to(dtype)) == losses.cross_entropy(z, labels)


@needs_counts
def test_labels_and_counts_that_would_be_broadcast_are_an_error(loss: Callable[..., Tensor]) -> None:
    z, labels, counts = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long), torch.ones(3)
    for wrong in (labels[:, None], labels[:1]):
        with pytest.raises(ValueError, match=r"labels has the shape \[.*\]: should have \[4\]"):
            loss(z, wrong, counts)
    with pytest.raises(ValueError, match=r"counts has the shape \[1\]: should have \[3\]"):
        loss(z, labels, counts[:1])
    for numbers in (labels.float(), labels.bool()):
        with pytest.raises(ValueError, match="give the numbers of the classes as integers"):
            loss(z, numbers, counts)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda row, rows: losses.distillation(rows, row), "teacher"),
        (lambda row, rows: losses.mmd(rows, row), "teacher_features"),
        (lambda row, rows: losses.contrastive(rows, row, rows), "received_features"),
        (lambda row, rows: losses.contrastive(rows, rows, row), "previous_features"),
        (lambda row, rows: losses.discriminator(rows[:, 0], row[:, 0]), "local_logits"),
        (lambda row, rows: losses.binary_cross_entropy(rows[:, 0], row[:, 0]), "targets"),
        (lambda row, rows: losses.one_vs_all(rows, torch.zeros(4).long(), torch.zeros(1)), "classes"),
    ],
)
def test_pairs_that_would_be_broadcast_are_an_error(
    call: Callable[[Tensor, Tensor], Tensor], what: str
) -> None:
    with pytest.raises(ValueError, match=f"{what} has the shape"):
        call(torch.zeros(1, 3), torch.zeros(4, 3))


def test_one_answer_a_sample_is_no_table() -> None:
    with pytest.raises(ValueError, match=r"has the shape \[B\] or \[B,1\], not \[4, 3\]"):
        losses.binary_cross_entropy(torch.zeros(4, 3), torch.zeros(4, 3))


def test_an_unchecked_label_of_a_missing_class_does_not_pass_for_a_good_loss() -> None:
    value = losses.fedlc(torch.zeros(2, 3), torch.tensor([0, 1]), torch.tensor([4, 0, 1]), validate=False)
    assert value > 1e30


# ---------------------------------------------------------------- FedABC


def test_fedabc_at_the_start_of_training() -> None:
    value = losses.fedabc(torch.zeros(4, 10), torch.arange(4), torch.ones(10))
    assert value.item() == pytest.approx(10 * 0.25 * math.log(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fedabc_drops_a_probability_exactly_at_its_threshold(dtype: torch.dtype) -> None:
    for logit in (-0.8473, 0.0, 1.1):
        z = torch.tensor([[logit, logit, logit]], dtype=dtype)
        q = z.sigmoid()[0, 0]
        up, down = (torch.nextafter(q, torch.tensor(end, dtype=dtype)) for end in (2.0, -1.0))
        counts = torch.tensor([1, 1, 0])

        def kept(mp: Tensor, mn: Tensor, mnn: Tensor, z: Tensor = z, n: Tensor = counts) -> int:
            _, gradient = value_and_grad(
                lambda x: losses.fedabc(x, torch.tensor([0]), n, mp=mp, mn=mn, mnn=mnn), z
            )
            return int((gradient != 0).sum())

        assert kept(q, q, q) == 0
        assert kept(up, q, q) == kept(q, down, q) == kept(q, q, down) == 1


def test_fedabc_takes_class_sets_from_the_client_not_from_the_batch() -> None:
    between = math.log(0.28 / 0.72)
    z = torch.tensor([[5.0, between, between]])
    _, gradient = value_and_grad(lambda x: losses.fedabc(x, torch.tensor([0]), torch.tensor([9, 2, 0])), z)
    assert gradient[0, 0] == 0
    assert gradient[0, 1] > 0
    assert gradient[0, 2] == 0


@pytest.mark.parametrize("sigma", [0.0, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("detach", [False, True])
def test_fedabc_closed_form_gradient(sigma: float, detach: bool) -> None:
    points = [-1e4, -90.0, -3.0, -0.5, 0.0, 0.7, 4.0, 90.0, 1e4]
    z = torch.tensor([[point, point] for point in points], dtype=torch.float32)
    labels = torch.zeros(len(points), dtype=torch.int64)
    loss = partial(losses.fedabc, sigma=sigma, drop=False, detach_focal=detach)
    _, gradient = value_and_grad(loss, z, labels, torch.ones(2))
    for point, (positive, negative) in zip(points, gradient.tolist(), strict=True):
        q, r = sigmoid(point), sigmoid(-point)
        focus = 0.0 if detach else sigma
        expected_positive = -(r**sigma) * (r + focus * q * softplus(-point)) / len(points)
        expected_negative = q**sigma * (q + focus * r * softplus(point)) / len(points)
        assert positive == pytest.approx(expected_positive, rel=1e-4, abs=1e-12)
        assert negative == pytest.approx(expected_negative, rel=1e-4, abs=1e-12)


def test_fedabc_with_everything_dropped() -> None:
    z = torch.tensor([[9.0, -9.0], [-9.0, 9.0]])
    value, gradient = value_and_grad(losses.fedabc, z, torch.tensor([0, 1]), torch.ones(2))
    assert value == 0
    assert (gradient == 0).all()


def test_fedabc_divides_by_samples_not_by_kept_pairs() -> None:
    z = torch.tensor([[0.0, -9.0], [9.0, -9.0]])
    value = losses.fedabc(z, torch.tensor([0, 0]), torch.ones(2))
    assert value.item() == pytest.approx(0.25 * math.log(2) / 2)


def test_fedabc_does_not_drop_a_diverged_sample() -> None:
    z = torch.tensor([[math.nan, 0.0]])
    assert losses.fedabc(z, torch.tensor([0]), torch.ones(2)).isnan()


def test_fedabc_plain_is_binary_cross_entropy() -> None:
    z, y, n, _ = draw(0)
    target = F.one_hot(y, CLASSES).double()
    expected = F.binary_cross_entropy_with_logits(z, target, reduction="sum") / BATCH
    torch.testing.assert_close(losses.fedabc(z, y, n, sigma=0, drop=False), expected)


def test_fedabc_thresholds_for_each_class_and_client() -> None:
    z, y, n, _ = draw(2)
    table = torch.tensor([[0.3, 0.9, 0.5, 0.8, 0.6], [0.9, 0.2, 0.7, 0.1, 0.5]], dtype=torch.float64)

    def loss(high: Tensor, low: Tensor) -> Tensor:
        return losses.fedabc(z, y, n, mp=high, mn=low, mnn=1 - high, validate=False)

    batched = torch.func.vmap(loss)(table, 1 - table)
    for k, row in enumerate(table.tolist()):
        total = 0.0
        for c in range(CLASSES):
            one = one_vs_all_focal(row[c], 1 - row[c], 1 - row[c], 2)
            alone = [[v if k == c else -1e4 for k, v in enumerate(r)] for r in z.tolist()]
            alone = [
                [1e4 if k == t and t != c else v for k, v in enumerate(r)]
                for r, t in zip(alone, y.tolist(), strict=True)
            ]
            total += one(alone, y.tolist(), n.tolist(), [])
        assert batched[k].item() == pytest.approx(total, rel=1e-12)
        assert loss(table[k], 1 - table[k]).item() == pytest.approx(total, rel=1e-12)


def test_fedabc_thresholds_that_would_spread_over_samples_are_refused() -> None:
    z, y, n, _ = draw(1)
    with pytest.raises(ValueError, match=r"mn has the shape \[1, 5\]: should have \[5\]"):
        losses.fedabc(z, y, n, mn=torch.full((1, CLASSES), 0.2))


# ---------------------------------------------------------------- FedLC and its relatives


def test_fedlc_margins_by_hand() -> None:
    counts = torch.tensor([1, 16, 10000, 0])
    assert losses.fedlc_margins(counts).tolist() == pytest.approx([1.0, 0.5, 0.1, math.inf])
    assert losses.fedlc_margins(counts, 0.0).tolist() == [0, 0, 0, math.inf]
    assert losses.fedlc_margins(torch.tensor([3])).item() == pytest.approx(3**-0.25, rel=1e-15)
    assert losses.fedlc_margins(counts, missing="clip").tolist() == pytest.approx(
        [1.0, 0.5, 0.1, 100.0], rel=1e-5
    )
    prior = losses.fedlc_margins(torch.tensor([1.0, 3.0, 0.0]), 2.0, "log_prior")
    assert prior.tolist() == pytest.approx([2 * math.log(4), 2 * math.log(4 / 3), math.inf])


def test_fedlc_asks_a_rare_class_for_a_larger_margin() -> None:
    z, counts = torch.zeros(1, 2), torch.tensor([1, 10000])
    rare = losses.fedlc(z, torch.tensor([0]), counts)
    common = losses.fedlc(z, torch.tensor([1]), counts)
    assert rare.item() == pytest.approx(math.log(1 + math.exp(0.9)))
    assert common.item() == pytest.approx(math.log(1 + math.exp(-0.9)))


@pytest.mark.parametrize("scale", [2.0, 1e4])
@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_fedlc_gradient_is_softmax_less_label_and_zero_for_missing_classes(tau: float, scale: float) -> None:
    z, y, n, _ = draw(3, scale, torch.float32)
    _, gradient = value_and_grad(partial(losses.fedlc, tau=tau), z, y, n)
    seen = [c for c in range(CLASSES) if n[c] > 0]
    for b, row in enumerate(z.tolist()):
        p = softmax([row[c] - tau * n[c].item() ** -0.25 for c in seen])
        for c, share in zip(seen, p, strict=True):
            assert gradient[b, c].item() == pytest.approx((share - int(y[b] == c)) / BATCH, abs=1e-6)
    assert (gradient[:, n == 0] == 0).all()


@pytest.mark.parametrize("name", ["fedlc others", "masked_softmax", "balanced_softmax", "fedlc prior"])
def test_missing_classes_get_exactly_no_gradient(name: str) -> None:
    z, y, n, aux = draw(3, 1e4, torch.float32)
    _, gradient = value_and_grad(CASES[name][0], z, y, n, aux, None)
    assert (gradient[:, n == 0] == 0).all()


def test_without_margin_or_missing_class_every_softmax_is_cross_entropy() -> None:
    z, y, _, _ = draw(0)
    full = torch.tensor([3, 1, 9, 2, 5])
    expected = F.cross_entropy(z, y)
    for value in (
        losses.cross_entropy(z, y),
        losses.fedlc(z, y, full, tau=0.0),
        losses.masked_softmax(z, y, full),
        losses.balanced_softmax(z, y, full, gamma=0.0),
        losses.balanced_softmax(z, y, torch.full((CLASSES,), 4)),
        losses.restricted_softmax(z, y, full, alpha=0.0),
        losses.restricted_softmax(z, y, torch.bincount(y, minlength=CLASSES), alpha=1.0),
        losses.fedlc(z, y, torch.full((CLASSES,), 7), tau=3.0),
    ):
        torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("tau", [0.0, 1.0, 7.3])
@pytest.mark.parametrize("margin", ["quarter", "log_prior"])
@pytest.mark.parametrize("denominator", ["all", "others"])
def test_a_client_with_one_label_learns_nothing_from_fedlc(tau: float, margin: Any, denominator: Any) -> None:
    z = torch.tensor([[3.7, -1.1, 1e4], [-1e4, 0.3, 5.0]])
    loss = partial(losses.fedlc, tau=tau, margin=margin, denominator=denominator)
    value, gradient = value_and_grad(loss, z, torch.tensor([0, 0]), torch.tensor([17, 0, 0]))
    assert value == 0
    assert (gradient == 0).all()


def test_the_clip_of_missing_classes_is_their_mask_for_ordinary_logits() -> None:
    z, y, n, _ = draw(1)
    torch.testing.assert_close(losses.fedlc(z, y, n, missing="clip"), losses.fedlc(z, y, n))


def test_the_printed_denominator_is_unbounded_below() -> None:
    z = torch.tensor([[500.0, -500.0]])
    assert losses.fedlc(z, torch.tensor([0]), torch.ones(2), denominator="others").item() == -1000


@pytest.mark.parametrize("own", [-1e4, 1e4])
@pytest.mark.parametrize("denominator", ["all", "others"])
def test_fedlc_keeps_the_digits_of_rivals_beside_a_huge_own_logit(own: float, denominator: Any) -> None:
    z, y, n = torch.tensor([[own, 0.10025, 0.0, -0.37]]), torch.tensor([0]), torch.tensor([3, 5, 7, 2])
    loss = partial(losses.fedlc, denominator=denominator)
    exact = value_and_grad(loss, z.double(), y, n)[1]
    torch.testing.assert_close(value_and_grad(loss, z, y, n)[1].double(), exact, atol=1e-6, rtol=0)


def test_balanced_softmax_is_fedlc_with_log_priors() -> None:
    z, y, n, _ = draw(1)
    prior = losses.fedlc(z, y, n, tau=0.6, margin="log_prior")
    torch.testing.assert_close(losses.balanced_softmax(z, y, n, gamma=0.6), prior)


# ---------------------------------------------------------------- FedRS


def test_restriction_by_hand() -> None:
    counts = torch.tensor([8, 0, 2])
    assert losses.restriction(counts).tolist() == [1, 0.5, 1]
    assert losses.restriction(counts, 0.3).tolist() == [1, 0.3, 1]
    assert losses.restriction(counts.double(), 0.1).tolist() == [1, 0.1, 1]
    assert losses.restriction(counts, 0.5, "soft").tolist() == [1, 0.5, 0.625]
    # A class distribution must restrict as counts do: the released mask took every share below 1 for missing.
    assert losses.restriction(counts / 10).tolist() == [1, 0.5, 1]
    assert losses.restriction(counts.double() / 16, 0.5, "soft").tolist() == [1, 0.5, 0.625]
    assert losses.restriction(torch.zeros(2), 0.5, "soft").tolist() == [0.5, 0.5]


def test_alpha_zero_leaves_missing_classes_in_the_denominator_at_logit_zero() -> None:
    z = torch.tensor([[0.0, 5.0]])
    loss = partial(losses.restricted_softmax, alpha=0.0)
    value, gradient = value_and_grad(loss, z, torch.tensor([0]), torch.tensor([1, 0]))
    assert value.item() == pytest.approx(math.log(2))
    assert gradient.tolist() == [[pytest.approx(-0.5), 0]]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_restricted_gradient_carries_the_scale(alpha: float) -> None:
    z, y, n, _ = draw(0)
    _, gradient = value_and_grad(partial(losses.restricted_softmax, alpha=alpha), z, y, n)
    for b, row in enumerate(z.tolist()):
        scale = [1 if size > 0 else alpha for size in n.tolist()]
        p = softmax([s * v for s, v in zip(scale, row, strict=True)])
        expected = [
            s * (share - int(c == y[b])) / BATCH for c, (s, share) in enumerate(zip(scale, p, strict=True))
        ]
        assert gradient[b].tolist() == pytest.approx(expected, rel=1e-10)


# ---------------------------------------------------------------- FedOVA


def test_two_output_head_with_a_zero_is_the_sigmoid_head() -> None:
    z, y, _, _ = draw(0)
    classes = torch.arange(CLASSES)
    pair = torch.stack([torch.zeros_like(z), z], -1)
    torch.testing.assert_close(
        losses.one_vs_all(pair, y, classes, head="softmax2"), losses.one_vs_all(z, y, classes)
    )


def test_two_output_head_is_the_cross_entropy_of_its_two_logits() -> None:
    z, y, _, aux = draw(5)
    pair = torch.stack([z, aux], -1)
    expected = sum(F.cross_entropy(pair[:, c], (y == c).long()) for c in range(CLASSES))
    value = losses.one_vs_all(pair, y, torch.arange(CLASSES), head="softmax2")
    torch.testing.assert_close(value, torch.as_tensor(expected))


def test_components_a_client_does_not_own_get_no_gradient() -> None:
    z, y, n, _ = draw(0)
    loss = partial(losses.one_vs_all, owned=n > 0)
    _, gradient = value_and_grad(loss, z, y, torch.arange(CLASSES))
    assert (gradient[:, n == 0] == 0).all()
    assert (gradient[:, n > 0] != 0).all()


@pytest.mark.parametrize("live", [None, torch.tensor([True, True, False, True])])
def test_answers_in_one_column_are_no_square(live: Tensor | None) -> None:
    z, other = torch.randn(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    yes = torch.tensor([1.0, 0, 1, 0], dtype=torch.float64)
    for column in ((z[:, None], yes), (z[:, None], yes[:, None]), (z, yes[:, None])):
        torch.testing.assert_close(
            losses.binary_cross_entropy(*column, live=live), losses.binary_cross_entropy(z, yes, live=live)
        )
    found = losses.discriminator(z[:, None], other[:, None], live=live)
    torch.testing.assert_close(found, losses.discriminator(z, other, live=live))
    torch.testing.assert_close(losses.fool(z[:, None], live=live), losses.fool(z, live=live))


def test_binary_cross_entropy_keeps_the_digits_of_a_right_answer() -> None:
    value = losses.binary_cross_entropy(torch.tensor([30.0]), torch.tensor([1.0]))
    assert value.item() == pytest.approx(math.exp(-30), rel=1e-5, abs=0)
    soft = losses.binary_cross_entropy(torch.tensor([0.0]), torch.tensor([0.3]))
    assert soft.item() == pytest.approx(math.log(2))


# ---------------------------------------------------------------- FedPHP


def test_distillation_by_hand_and_its_direction() -> None:
    student = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
    teacher = torch.zeros(1, 2, dtype=torch.float64)
    # KL((1/2, 1/2) || (3/4, 1/4)) = log(1/2) - (log(3/4) + log(1/4)) / 2
    forward = math.log(0.5) - (math.log(0.75) + math.log(0.25)) / 2
    assert losses.distillation(student, teacher, temperature=1).item() == pytest.approx(forward)
    backward = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert losses.distillation(teacher, student, temperature=1).item() == pytest.approx(backward)


@pytest.mark.parametrize("scale", [2.0, 1e4])
def test_distillation_gradient_is_t_times_the_gap(scale: float) -> None:
    student, _, _, teacher = draw(0, scale)
    _, gradient = value_and_grad(losses.distillation, student, teacher)
    for b in range(BATCH):
        s, t = (softmax([v / 4 for v in x[b].tolist()]) for x in (student, teacher))
        assert gradient[b].tolist() == pytest.approx(
            [4 * (a - c) / BATCH for a, c in zip(s, t, strict=True)], abs=1e-12
        )


@pytest.mark.parametrize(
    "loss", [losses.distillation, partial(losses.distillation, form="author"), losses.mmd]
)
def test_the_teacher_is_a_constant(loss: Callable[..., Tensor]) -> None:
    student, _, _, teacher = draw(0)
    teacher.requires_grad_()
    value = loss(student.requires_grad_(), teacher)
    _, into_teacher = torch.autograd.grad(value, (student, teacher), allow_unused=True)
    assert into_teacher is None


def test_mmd_gradient_holds_the_widths() -> None:
    x, _, _, t = draw(0)
    _, gradient = value_and_grad(losses.mmd, x, t)
    width, step = bandwidth(x.tolist(), t.tolist()), 1e-6
    for b, c in [(0, 0), (3, 2), (6, 4)]:
        moved = [x.clone(), x.clone()]
        moved[0][b, c] += step
        moved[1][b, c] -= step
        up, down = (mmd_with(width, m.tolist(), t.tolist()) for m in moved)
        assert gradient[b, c].item() == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("place", [0.0, 1e4])
def test_mmd_of_points_that_coincide(place: float) -> None:
    for size in (1, 6, 33):
        x = (place + torch.rand(1, 200, generator=torch.Generator().manual_seed(size))).repeat(size, 1)
        value, gradient = value_and_grad(losses.mmd, x, x.clone())
        assert value.item() == pytest.approx(0, abs=1e-6)
        assert (gradient == 0).all()


def test_mmd_of_one_live_sample_by_hand() -> None:
    x, t = torch.tensor([[1.0, 2.0], [7.0, 7.0]]), torch.tensor([[4.0, 6.0], [9.0, 1.0]])
    # n = 2 points, so the width is their squared distance, whatever it is.
    expected = sum(2 - 2 * math.exp(-4 / 2**j) for j in range(5))
    assert losses.mmd(x, t, live=torch.tensor([True, False])).item() == pytest.approx(expected, rel=1e-6)


def test_mmd_far_from_the_origin_keeps_its_digits() -> None:
    x, _, _, t = draw(0, dtype=torch.float32)
    x, t = (((v * 64).round() / 64) for v in (x, t))
    torch.testing.assert_close(losses.mmd(x + 4096, t + 4096), losses.mmd(x, t), rtol=1e-4, atol=1e-5)


def test_mmd_of_other_numbers_of_kernels_is_centred_on_the_mean_distance() -> None:
    x, t = torch.tensor([[0.0]]), torch.tensor([[3.0]])
    assert losses.mmd(x, t, kernels=1).item() == pytest.approx(2 - 2 * math.exp(-1))
    assert losses.mmd(x, t, kernels=3).item() == pytest.approx(sum(2 - 2 * math.exp(-v) for v in (2, 1, 0.5)))


# ---------------------------------------------------------------- GRP-FED


def slope(loss: Callable[[Tensor], Tensor], logit: float) -> float:
    return torch.func.grad(loss)(torch.tensor([logit])).item()


@pytest.mark.parametrize("logit", [-1e4, -6.0, 0.0, 6.0, 1e4])
def test_the_two_players_pull_in_opposite_directions(logit: float) -> None:
    """D raises its answer on global, lowers it on local features; the extractor raises it on local ones."""
    zero = torch.zeros(1)
    for form in ("bce", "printed"):
        on_global = slope(lambda z, form=form: losses.discriminator(z, zero, form=form), logit)
        on_local = slope(lambda z, form=form: losses.discriminator(zero, z, form=form), logit)
        assert on_global <= 0 <= on_local
        assert abs(on_global) + abs(on_local) == pytest.approx(1)
    assert slope(losses.fool, logit) == pytest.approx(-sigmoid(logit))
    assert slope(partial(losses.fool, form="nonsaturating"), logit) == pytest.approx(-sigmoid(-logit))


def test_discriminator_forms_by_hand() -> None:
    sure, wrong = torch.tensor([math.log(3)]), torch.tensor([-math.log(3)])  # D = 3/4 and 1/4
    assert losses.discriminator(sure, wrong).item() == pytest.approx(-2 * math.log(0.75))
    assert losses.discriminator(sure, wrong, form="printed").item() == pytest.approx(2 * math.log(0.25))
    assert losses.fool(sure).item() == pytest.approx(math.log(0.25))
    assert losses.fool(sure, form="nonsaturating").item() == pytest.approx(-math.log(0.75))


# ---------------------------------------------------------------- MOON, FedProto, FedAwS


def test_contrastive_by_hand() -> None:
    here, there = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    assert losses.contrastive(here, 5 * here, there).item() == pytest.approx(math.log(1 + math.exp(-2)))
    assert losses.contrastive(here, there, here, temperature=1).item() == pytest.approx(math.log(1 + math.e))
    assert losses.contrastive(here, there, there).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("length", [5e-15, 1.0, 5e19])
def test_directions_of_vectors_of_any_length_have_true_gradients(length: float) -> None:
    def slope(dtype: torch.dtype, loss: Callable[[Tensor], Tensor]) -> Tensor:
        rows = torch.tensor([[0.6, 0.8], [0.8, 0.6]], dtype=dtype) * length
        rows.requires_grad_()
        (found,) = torch.autograd.grad(loss(rows), rows)
        return found.double() * length

    one = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for loss in (
        lambda rows: losses.contrastive(rows, one.to(rows.dtype), one.flip(0).to(rows.dtype)),
        lambda rows: losses.spread(rows, margin=0.9),
    ):
        exact = slope(torch.float64, loss)
        assert exact.abs().max() > 1e-3
        assert torch.allclose(slope(torch.float32, loss), exact, rtol=1e-5, atol=1e-6)


def test_contrastive_trains_only_the_current_features() -> None:
    here, received, previous = (torch.randn(3, 4, requires_grad=True) for _ in range(3))
    value = losses.contrastive(here, received, previous)
    current, *others = torch.autograd.grad(value, (here, received, previous), allow_unused=True)
    assert current.abs().sum() > 0
    assert others == [None, None]


def test_a_zero_feature_has_no_direction_and_an_ordinary_gradient() -> None:
    zero = torch.zeros(1, 3)
    value, gradient = value_and_grad(losses.contrastive, zero, torch.ones(1, 3), -torch.ones(1, 3))
    assert value.item() == pytest.approx(math.log(2))
    assert gradient.abs().max() < 2
    assert value_and_grad(losses.contrastive, torch.ones(1, 3), zero, zero)[0].item() == pytest.approx(
        math.log(2)
    )


def test_prototype_by_hand() -> None:
    features = torch.tensor([[1.0, 3.0], [0.0, 0.0], [8.0, 8.0]])
    known = torch.tensor([True, True, False])
    prototypes = torch.tensor([[1.0, 1.0], [4.0, 2.0], [math.nan, math.nan]])
    loss = partial(losses.prototype, prototypes=prototypes, known=known)
    value, gradient = value_and_grad(loss, features, torch.tensor([0, 1, 2]))
    # Mean over the two samples with a prototype: (4 + 20) / 2.
    assert value.item() == 12
    assert gradient.tolist() == [[0, 2], [-4, -2], [0, 0]]
    assert loss(features, torch.tensor([0, 1, 2]), distance="mean") == 6
    nothing, flat = value_and_grad(loss, features, torch.tensor([2, 2, 2]))
    assert nothing == 0
    assert (flat == 0).all()


def test_spread_by_hand() -> None:
    # Rows at angle 0, 90 and 180 degrees: distances 1/2, 1 and 1/2.
    rows = torch.tensor([[2.0, 0.0], [0.0, 0.1], [-3.0, 0.0]], dtype=torch.float64)
    assert losses.spread(rows, margin=0.9).item() == pytest.approx(4 * 0.4**2 / 9)
    assert losses.spread(rows, margin=0.5).item() == 0
    assert torch.autograd.gradcheck(partial(losses.spread, margin=0.9), rows.requires_grad_())


def test_spread_moves_near_rows_apart_and_survives_a_zero_row() -> None:
    rows = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.2, 0.0], [0.0, 0.0, 0.0]])
    value, gradient = value_and_grad(partial(losses.spread, margin=0.4), rows)
    assert losses.spread(rows - gradient, margin=0.4) < value
    assert gradient.isfinite().all()
    heads = torch.randn(4, 3, 6)
    batched = torch.func.vmap(torch.func.grad(partial(losses.spread, margin=0.9)))(heads)
    for head, slopes in zip(heads, batched, strict=True):
        torch.testing.assert_close(slopes, value_and_grad(partial(losses.spread, margin=0.9), head)[1])


# ---------------------------------------------------------------- invariances

quick = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10_000)
SHIFT_INVARIANT = [
    "cross_entropy",
    "fedlc",
    "fedlc others",
    "fedlc clip",
    "masked_softmax",
    "balanced_softmax",
]


@quick
@given(
    seeds, st.floats(-1e3, 1e3), st.sampled_from([*SHIFT_INVARIANT, "distillation", "distillation author"])
)
def test_softmax_losses_ignore_a_shift_of_all_logits(seed: int, shift: float, name: str) -> None:
    z, *rest = draw(seed)
    loss = CASES[name][0]
    torch.testing.assert_close(loss(z + shift, *rest, None), loss(z, *rest, None), rtol=1e-8, atol=1e-8)


PER_CLASS = [
    n for n in CASES if n.startswith(("cross", "fedabc", "fedlc", "masked", "balanced", "restricted"))
]


@quick
@given(seeds, st.permutations(range(CLASSES)), st.sampled_from(PER_CLASS))
def test_names_of_classes_do_not_matter(seed: int, order: list[int], name: str) -> None:
    z, y, n, aux = draw(seed)
    index = torch.tensor(order)
    renamed = torch.argsort(index)[y]
    loss = CASES[name][0]
    torch.testing.assert_close(loss(z[:, index], renamed, n[index], aux, None), loss(z, y, n, aux, None))


@quick
@given(seeds, st.permutations(range(BATCH)), st.sampled_from(sorted(CASES)))
def test_order_of_samples_does_not_matter(seed: int, order: list[int], name: str) -> None:
    z, y, n, aux = draw(seed)
    loss = CASES[name][0]
    torch.testing.assert_close(loss(z[order], y[order], n, aux[order], None), loss(z, y, n, aux, None))


@quick
@given(seeds, st.floats(0, 4), st.floats(0, 4))
def test_focus_and_dropping_only_lower_fedabc(seed: int, a: float, b: float) -> None:
    z, y, n, _ = draw(seed)
    low, high = sorted((a, b))
    assert losses.fedabc(z, y, n, sigma=high) <= losses.fedabc(z, y, n, sigma=low) + 1e-12
    assert losses.fedabc(z, y, n, sigma=a) <= losses.fedabc(z, y, n, sigma=a, drop=False)


@quick
@given(seeds, st.floats(0.5, 8))
def test_divergences_are_positive_and_zero_for_equals(seed: int, temperature: float) -> None:
    z, _, _, aux = draw(seed)
    assert losses.distillation(z, aux, temperature=temperature) > 0
    assert losses.distillation(z, z + 3, temperature=temperature).abs() < 1e-12
    assert losses.mmd(z, aux) > 0
    torch.testing.assert_close(losses.mmd(z, aux), losses.mmd(aux, z))
    assert losses.mmd(z, z.flip(0)).abs() < 1e-12
