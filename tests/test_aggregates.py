"""Aggregation rules against float64 loops written from the papers, and at their edges."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedskew.models.module import from_module
from fedskew.part import Aggregate
from fedskew.parts import (
    AdaptivePower,
    Agnostic,
    AsArrived,
    DynamicMean,
    FairDescent,
    GroupedMean,
    Mean,
    Normalised,
)
from fedskew.parts.aggregates import normalised_weights
from fedskew.parts.components import grouped_mean, grow
from fedskew.parts.fair import fair_weights, next_power, power_weights, project_simplex, seated
from fedskew.step import SGD
from fedskew.tree import Tree
from fedskew.values import Cohort, Reply

MODEL = from_module(lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 4)))
WEIGHT, MEAN, COUNTER = "0.weight", "1.running_mean", "1.num_batches_tracked"


def drawn(clients: int, seed: int = 0) -> tuple[Tree, Tree]:
    """A server's network and stacked uploads, all different."""
    random = torch.Generator().manual_seed(seed)
    start = {n: v.double() if v.is_floating_point() else v for n, v in MODEL.init(seed).items()}
    moves = {
        n: torch.randn(clients, *v.shape, generator=random, dtype=torch.float64) for n, v in start.items()
    }
    stacked = {
        n: v + moves[n] if v.is_floating_point() else torch.arange(clients) + 3 for n, v in start.items()
    }
    return start, stacked


def reply(
    stacked: Tree, samples: Sequence[float], steps: Sequence[float] | None = None, **extra: Tree
) -> Reply:
    n = torch.tensor(samples, dtype=torch.float64)
    tau = torch.ones_like(n) if steps is None else torch.tensor(steps, dtype=torch.float64)
    return Reply(stacked, extra, n, tau, tau, torch.ones_like(n))


RATE = 0.05


def combined(
    part: Aggregate, start: Tree, replies: Reply, population: int = 9, state: Tree | None = None
) -> tuple[Tree, Tree]:
    cohort = Cohort(tuple(range(len(replies.samples))), population, 0, rate=RATE)
    own = part.server_state({n: start[n] for n in MODEL.trainable}, population) if state is None else state
    return part.combine(start, replies, cohort, own, MODEL)


def near(a: Tensor, b: Tensor | float) -> bool:
    return torch.allclose(a, torch.as_tensor(b, dtype=a.dtype), rtol=1e-12, atol=1e-12)


def losses(*values: float) -> Tree:
    return {"loss": torch.tensor(values, dtype=torch.float64)}


PARTS = {
    "mean": Mean(),
    "uniform": Mean("uniform"),
    "fednova": Normalised(),
    "grpfed": AdaptivePower(),
    "afl": Agnostic(),
    "qfedavg, q = 0": FairDescent(q=0.0),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_participant_is_copied_bit_for_bit(part: Aggregate, dtype: torch.dtype) -> None:
    start, stacked = (
        {n: v.to(dtype) if v.is_floating_point() else v for n, v in t.items()} for t in drawn(1)
    )
    found, _ = combined(part, start, reply(stacked, [7.0], [13.0], **{part.name: losses(0.7)}))
    for name, value in stacked.items():
        assert torch.equal(found[name], value[0]), name


def test_mean_is_weighted_by_examples_and_counters_take_the_maximum() -> None:
    start, stacked = drawn(3)
    found, _ = combined(Mean(), start, reply(stacked, [5, 1, 2]))
    for name in (WEIGHT, MEAN):
        assert near(found[name], (5 * stacked[name][0] + 1 * stacked[name][1] + 2 * stacked[name][2]) / 8)
    assert int(found[COUNTER]) == 5
    found, _ = combined(Mean("uniform"), start, reply(stacked, [5, 1, 2]))
    assert near(found[WEIGHT], (stacked[WEIGHT][0] + stacked[WEIGHT][1] + stacked[WEIGHT][2]) / 3)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("tau", [0, 1, 2, 7])
def test_effective_steps_are_the_sum_of_what_momentum_adds_up_to(rho: float, tau: int) -> None:
    expected = sum(sum(rho**i for i in range(s)) for s in range(1, tau + 1))
    assert near(SGD(momentum=rho).effective(torch.tensor(float(tau), dtype=torch.float64)), expected)
    assert SGD(momentum=rho).effective(torch.tensor(float(tau))).item() == pytest.approx(expected, rel=1e-7)
    assert SGD(momentum=0.999).effective(torch.tensor(2.0)).item() == pytest.approx(2.999, rel=1e-7)


def test_fednova_is_the_printed_update_and_leaves_statistics_to_the_plain_mean() -> None:
    start, stacked = drawn(3)
    n, a = [5.0, 1.0, 2.0], [3.0, 10.0, 1.0]
    found, _ = combined(Normalised(), start, reply(stacked, n, a))
    p = [value / sum(n) for value in n]
    length = sum(p[k] * a[k] for k in range(3))
    change = sum(p[k] * (start[WEIGHT] - stacked[WEIGHT][k]) / a[k] for k in range(3))
    assert near(found[WEIGHT], start[WEIGHT] - length * change)
    assert near(found[MEAN], sum(p[k] * stacked[MEAN][k] for k in range(3)))


def test_fednova_keeps_its_digits_where_steps_are_very_unequal() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, generator=generator, dtype=torch.float64)
    y = x + 1e-3 * torch.randn(20, 500, generator=generator, dtype=torch.float64)
    n, a = [3000.0, *[10.0] * 19], [235.0, *[5.0] * 19]

    def after(dtype: torch.dtype) -> Tensor:
        sent = reply({WEIGHT: y.to(dtype)}, n, a)
        return combined(Normalised(), {WEIGHT: x.to(dtype)}, sent, state={})[0][WEIGHT]

    assert (after(torch.float32) - after(torch.float64)).abs().max() < 5e-7


def test_fednova_with_equal_steps_is_fedavg() -> None:
    start, stacked = drawn(3)
    sent = reply(stacked, [5, 1, 2], [4, 4, 4])
    assert near(combined(Normalised(), start, sent)[0][WEIGHT], combined(Mean(), start, sent)[0][WEIGHT])


def test_fednova_with_clients_that_took_no_step() -> None:
    assert near(
        normalised_weights(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 3.0])), torch.tensor([0.0, 0.25])
    )
    start, stacked = drawn(2)
    found, _ = combined(Normalised(), start, reply(stacked, [1, 1], [0, 0]))
    assert torch.equal(found[WEIGHT], start[WEIGHT])


def test_feddyn_remembers_h_over_alpha() -> None:
    alpha, population = 0.3, 9
    server, _ = drawn(1)
    x, h, state = server[WEIGHT], torch.zeros_like(server[WEIGHT]), None
    for t in range(3):
        _, stacked = drawn(4, seed=t)
        replies = reply(stacked, [1, 2, 3, 4])
        server, state = combined(DynamicMean(), server, replies, population, state)
        h = h - alpha / population * sum(stacked[WEIGHT][k] - x for k in range(4))
        x = sum(stacked[WEIGHT][k] for k in range(4)) / 4 - h / alpha
        assert near(server[WEIGHT], x)
        assert near(server[MEAN], sum(stacked[MEAN][k] for k in range(4)) / 4)


COMPONENTS = torch.arange(12, dtype=torch.float64).reshape(4, 3) / 7  # four classes
CLASSES = torch.tensor([[0, 2], [2, 2], [0, 1]])
ROWS = torch.tensor([[True, True], [True, False], [True, True]])


def rows() -> Tensor:
    return torch.randn(3, 2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def components(
    part: Aggregate, samples: Sequence[float] = (1, 1, 1), steps: Sequence[float] = (1, 1, 1)
) -> Tensor:
    sent = reply({"w": rows()}, samples, steps, OwnRows={"classes": CLASSES, "rows": ROWS})
    return part.combine({"w": COMPONENTS}, sent, Cohort((0, 1, 2), 9, 0), {}, MODEL)[0]["w"]


@pytest.mark.parametrize("weight", ["uniform", "samples"])
def test_fedova_averages_a_component_over_those_who_trained_it(weight: str) -> None:
    n = [5.0, 1.0, 2.0] if weight == "samples" else [1.0, 1.0, 1.0]
    found = components(GroupedMean(weight), samples=(5, 1, 2))  # type: ignore[arg-type]
    for label in range(4):
        total, sum_of_weights = torch.zeros(3, dtype=torch.float64), 0.0
        for k in range(3):
            for row in range(2):
                if ROWS[k, row] and CLASSES[k, row] == label:
                    total, sum_of_weights = total + n[k] * rows()[k, row], sum_of_weights + n[k]
        if sum_of_weights:
            assert near(found[label], total / sum_of_weights)
        else:
            assert torch.equal(found[label], COMPONENTS[label])
    assert torch.equal(found[3], COMPONENTS[3])


def test_fedova_copies_a_component_that_one_client_trained() -> None:
    assert torch.equal(components(GroupedMean())[1], rows()[2, 1])
    counters = grouped_mean(
        {"n": torch.tensor([1, 1, 1, 1])},
        {"n": torch.tensor([[4, 9], [5, 99], [6, 2]])},
        CLASSES,
        ROWS,
        torch.ones(3),
    )
    assert counters["n"].tolist() == [6, 2, 9, 1]


def test_how_many_components_nobody_has_trained_is_remembered() -> None:
    sent = reply({"w": rows()}, (1, 1, 1), OwnRows={"classes": CLASSES, "rows": ROWS})
    few = reply({"w": rows()[:1]}, (1,), OwnRows={"classes": CLASSES[:1], "rows": ROWS[:1]})
    for part in (GroupedMean(), AsArrived()):
        _, state = part.combine({"w": COMPONENTS}, few, Cohort((0,), 9, 0), {}, MODEL)
        assert int(state["untrained"]) == 4 - len(set(CLASSES[0][ROWS[0]].tolist()))
        _, state = part.combine({"w": COMPONENTS}, sent, Cohort((0, 1, 2), 9, 1), state, MODEL)
        assert state["trained"].tolist() == [True, True, True, False]
        assert int(state["untrained"]) == 1


@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
@pytest.mark.parametrize("part", [Mean(), Mean("uniform"), Normalised(), DynamicMean()])
def test_weights_are_as_precise_as_what_they_weigh(part: Aggregate, kind: torch.dtype) -> None:
    start, stacked = drawn(3)
    sent = reply(stacked, [10, 20, 40])
    found, expected = (
        combined(part, start, one)[0] for one in (sent._replace(samples=sent.samples.to(kind)), sent)
    )
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("part", [GroupedMean("samples"), AsArrived(), AsArrived(rate=None)])
def test_components_weighed_by_whole_numbers(part: Aggregate) -> None:
    sent = reply({"w": rows()}, (5, 1, 2), OwnRows={"classes": CLASSES, "rows": ROWS})
    whole = sent._replace(samples=sent.samples.long())
    found, expected = (
        part.combine({"w": COMPONENTS}, one, Cohort((0, 1, 2), 9, 0), {}, MODEL)[0] for one in (whole, sent)
    )
    assert torch.equal(found["w"], expected["w"])


def test_components_as_they_arrive_end_where_the_grouped_mean_does() -> None:
    assert near(components(AsArrived(rate=None), steps=(3, 1, 2)), components(GroupedMean()))


def test_components_are_mixed_in_by_the_order_of_steps() -> None:
    found = components(AsArrived(rate=0.25), steps=(3, 1, 2))  # arrive: client 1, client 2, client 0
    two = 0.75 * (0.75 * COMPONENTS[2] + 0.25 * rows()[1, 0]) + 0.25 * rows()[0, 1]
    zero = 0.75 * (0.75 * COMPONENTS[0] + 0.25 * rows()[2, 0]) + 0.25 * rows()[0, 0]
    assert near(found[2], two)
    assert near(found[0], zero)
    assert torch.equal(found[3], COMPONENTS[3])


def test_a_new_class_gets_a_component_and_the_others_stay() -> None:
    wider = torch.randn(6, 3, dtype=torch.float64)
    found = grow({"w": COMPONENTS}, {"w": wider})["w"]
    assert torch.equal(found[:4], COMPONENTS)
    assert torch.equal(found[4:], wider[4:])


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6), st.floats(0.1, 3))
@settings(max_examples=60, deadline=None)
def test_power_weights_are_the_printed_quotient(values: list[float], q: float) -> None:
    found = power_weights(torch.tensor(values, dtype=torch.float64), q)
    total = math.fsum(value**q for value in values)
    assert torch.allclose(found, torch.tensor([value**q / total for value in values], dtype=torch.float64))


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ((0.0, 2.0), 10.0, (0.0, 1.0)),
        ((0.0, 0.0, 0.0), 10.0, (1 / 3, 1 / 3, 1 / 3)),
        ((0.0, 5.0), 0.0, (0.5, 0.5)),
        ((1e30, 1e30), 10.0, (0.5, 0.5)),
        ((1e-30, 1e-30), 10.0, (0.5, 0.5)),
        ((1e30, 1e-30), 10.0, (1.0, 0.0)),
        ((1.0, 2.0), 10.0, (1 / 1025, 1024 / 1025)),
    ],
)
def test_power_weights_at_the_edges(values: tuple[float, ...], q: float, expected: tuple[float, ...]) -> None:
    for dtype in (torch.float32, torch.float64):
        found = power_weights(torch.tensor(values, dtype=dtype), q)
        assert torch.allclose(found, torch.tensor(expected, dtype=dtype), atol=1e-6)


def power(q: float, before: float, now: float, rate: float = 0.5) -> float:
    return float(next_power(*(torch.tensor(v, dtype=torch.float64) for v in (q, before, now)), rate))


def test_q_follows_the_relative_change_of_the_spread() -> None:
    assert power(10, 0.2, 0.3) == pytest.approx(10 + 0.5 * 0.1 / 0.25)
    assert power(10, -1, 0.3) == 10  # first round
    assert power(10, 0, 0) == 10
    assert power(10, 0.3, 0) == 9
    assert power(10, 0, 0.3) == 11
    assert power(0.5, 0.3, 0) == 0
    assert power(10, 0.3, 7, rate=0) == 10


def test_grpfed_moves_q_first_and_uses_the_population_deviation() -> None:
    part, state, q, before = AdaptivePower(), None, 10.0, None
    for t, values in enumerate([(0.5, 0.9, 1.4), (1.2, 0.4), (0.3, 0.3, 0.9, 2.0)]):
        start, stacked = drawn(len(values), seed=t)
        replies = reply(stacked, [1.0] * len(values), AdaptivePower=losses(*values))
        found, state = combined(part, start, replies, state=state)
        centre = sum(values) / len(values)
        sigma = math.sqrt(sum((v - centre) ** 2 for v in values) / len(values))
        if before is not None:
            q = max(0.0, q + 0.5 * (sigma - before) / ((sigma + before) / 2))
        before = sigma
        total = sum(v**q for v in values)
        expected = sum(v**q / total * stacked[WEIGHT][k] for k, v in enumerate(values))
        assert near(found[WEIGHT], expected)
        assert float(state["q"]) == pytest.approx(q)


def nearest_on_simplex(point: Sequence[float]) -> list[float]:
    """By bisection on the shift: an oracle without sorting."""
    low, high = min(-v for v in point), max(1 - v for v in point)
    for _ in range(200):
        shift = (low + high) / 2
        low, high = (shift, high) if sum(max(v + shift, 0) for v in point) < 1 else (low, shift)
    return [max(v + low, 0) for v in point]


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_projection_on_the_simplex_is_exact(point: list[float]) -> None:
    found = project_simplex(torch.tensor(point, dtype=torch.float64))
    assert torch.allclose(found, torch.tensor(nearest_on_simplex(point), dtype=torch.float64), atol=1e-9)
    assert float(found.sum()) == pytest.approx(1)
    assert bool((found >= 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_projection_of_numbers_beside_which_one_is_nothing(dtype: torch.dtype) -> None:
    assert project_simplex(torch.tensor([1e18, 0.0, -1e18], dtype=dtype)).tolist() == [1, 0, 0]
    assert project_simplex(torch.tensor([1e18, 1e18], dtype=dtype)).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("part", [Mean(), Normalised()])
def test_weights_that_nobody_has_are_equal(part: Aggregate) -> None:
    start, stacked = drawn(2)
    found, expected = (combined(part, start, reply(stacked, n))[0] for n in ([0, 0], [3, 3]))
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_projection_leaves_the_simplex_alone() -> None:
    inside = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    assert near(project_simplex(inside), inside)
    # A partial sum without the entry itself gives something that does not add up to 1 here.
    assert near(
        project_simplex(torch.tensor([0.9, 0.6, 0.1], dtype=torch.float64)),
        torch.tensor([0.65, 0.35, 0.0], dtype=torch.float64),
    )


def test_afl_weighs_by_lambda_and_then_raises_it() -> None:
    start, stacked = drawn(3)
    state = {
        "weights": torch.tensor([0.5, 0.1, 0.2, 0.2], dtype=torch.float64),
        "clients": torch.tensor([0, 1, 2, -1]),
    }
    replies = reply(stacked, [9, 9, 9], Agnostic=losses(1.0, 3.0, 0.5))
    found, new = combined(Agnostic(rate=0.1), start, replies, 4, state)
    assert near(
        found[WEIGHT], (0.5 * stacked[WEIGHT][0] + 0.1 * stacked[WEIGHT][1] + 0.2 * stacked[WEIGHT][2]) / 0.8
    )
    raised = [0.5 + 0.1, 0.1 + 0.3, 0.2 + 0.05, 0.2]
    assert near(new["weights"], torch.tensor(nearest_on_simplex(raised), dtype=torch.float64))


def test_afl_with_no_weight_on_any_participant_is_uniform() -> None:
    start, stacked = drawn(2)
    state = {
        "weights": torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64),
        "clients": torch.tensor([0, 1, 5]),
    }
    found, _ = combined(Agnostic(), start, reply(stacked, [3, 1], Agnostic=losses(1, 1)), 3, state)
    assert near(found[WEIGHT], (stacked[WEIGHT][0] + stacked[WEIGHT][1]) / 2)


def test_afl_finds_clients_whose_numbers_have_gaps() -> None:
    clients, places = seated(torch.tensor([-1, -1, -1]), (7, 2))
    assert clients.tolist() == [2, 7, -1]
    assert places.tolist() == [1, 0]
    clients, places = seated(clients, (40, 7))
    assert clients.tolist() == [2, 7, 40]
    assert places.tolist() == [2, 1]


def test_components_arrive_alike_whatever_the_order_of_the_replies() -> None:
    order = [2, 0, 1]
    sent = reply({"w": rows()[order]}, [1, 1, 1], OwnRows={"classes": CLASSES[order], "rows": ROWS[order]})
    found, _ = AsArrived().combine({"w": COMPONENTS}, sent, Cohort((2, 0, 1), 9, 0), {}, MODEL)
    assert torch.equal(found["w"], components(AsArrived()))


@pytest.mark.parametrize("q", [0.0, 1.0, 2.5])
def test_qfedavg_is_the_printed_update(q: float) -> None:
    start, stacked = drawn(3)
    values, lr = (0.5, 2.0, 1.1), RATE
    found, _ = combined(FairDescent(q), start, reply(stacked, [1, 5, 9], FairDescent=losses(*values)))
    numerator: dict[str, Tensor | float] = dict.fromkeys(MODEL.trainable, 0.0)
    denominator = 0.0
    for k, loss in enumerate(values):
        f = loss + 1e-10
        g = {n: (start[n] - stacked[n][k]) / lr for n in MODEL.trainable}
        square = sum(float((v * v).sum()) for v in g.values())
        numerator = {n: numerator[n] + f**q * g[n] for n in g}
        denominator += q * f ** (q - 1) * square + f**q / lr
    assert near(found[WEIGHT], start[WEIGHT] - numerator[WEIGHT] / denominator)
    assert near(found[MEAN], sum(stacked[MEAN][k] for k in range(3)) / 3)


@pytest.mark.parametrize("scale", [1e30, 1e-30, 1.0])
def test_qfedavg_survives_powers_that_do_not_fit(scale: float) -> None:
    loss = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64) * scale
    found = fair_weights(loss, torch.ones(3).double(), 0.1, 10.0)
    assert bool(torch.isfinite(found).all())
    assert bool((found >= 0).all())
