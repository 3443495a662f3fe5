"""Metrics against scikit-learn, plain loops and numbers one can check by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor

from fedskew import metrics
from fedskew.errors import ConfigError, DataError, DivergedError

quick = settings(deadline=None, max_examples=60)
CLASSES = 5
pairs = st.lists(st.tuples(st.integers(0, CLASSES - 1), st.integers(0, CLASSES - 1)), min_size=1, max_size=40)
shares = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def split(drawn: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    return torch.tensor([t for t, _ in drawn]), torch.tensor([p for _, p in drawn])


def matrix(drawn: list[tuple[int, int]]) -> Tensor:
    truth, predicted = split(drawn)
    return metrics.confusion(predicted, truth, CLASSES)


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def same(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, equal_nan=True)


NOTHING = torch.zeros(CLASSES, CLASSES, dtype=torch.int64)
# Client A: 8 of 10 right on classes 0 and 1; client B: 0 of 2 right, one sample each of classes 1 and 2.
A = torch.tensor([[5, 1, 0], [1, 3, 0], [0, 0, 0]])
B = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0]])


# predict


def test_predict_takes_the_largest_logit() -> None:
    assert metrics.predict(torch.tensor([[0.0, 2.0, 1.0], [-1.0, -3.0, -2.0]])).tolist() == [1, 0]


@pytest.mark.parametrize("classes", [2, 7, 64, 1000])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_ties_go_to_the_lowest_index_at_every_width(classes: int, kind: torch.dtype) -> None:
    logits = torch.zeros(classes, classes, dtype=kind)
    for row in range(classes):
        logits[row, row:] = 1.0
    assert metrics.predict(logits).tolist() == list(range(classes))
    assert metrics.predict(logits.t().contiguous().t()).tolist() == list(range(classes))


@quick
@given(st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=20))
def test_predict_is_the_first_maximum(rows: list[list[int]]) -> None:
    assert metrics.predict(torch.tensor(rows).float()).tolist() == [row.index(max(row)) for row in rows]


def test_predict_accepts_infinite_but_not_undefined_logits() -> None:
    inf = math.inf
    assert metrics.predict(torch.tensor([[-inf, 0.0, -inf], [1.0, inf, inf], [-inf] * 3])).tolist() == [
        1,
        1,
        0,
    ]
    with pytest.raises(DivergedError, match="nan"):
        metrics.predict(torch.tensor([[0.0, math.nan, 1.0]]))


# confusion


@quick
@given(pairs)
def test_confusion_accuracy_and_recall_agree_with_scikit_learn(drawn: list[tuple[int, int]]) -> None:
    truth, predicted = split(drawn)
    cm, names = matrix(drawn), range(CLASSES)
    assert cm.dtype == torch.int64
    assert cm.tolist() == sk.confusion_matrix(truth, predicted, labels=names).tolist()
    same(metrics.accuracy(cm), f64(sk.accuracy_score(truth, predicted))[0])
    recall = sk.recall_score(truth, predicted, labels=names, average=None, zero_division=np.nan)
    same(metrics.per_class(cm), torch.from_numpy(recall))


def test_confusion_rows_are_the_truth() -> None:
    assert metrics.confusion(torch.tensor([1]), torch.tensor([0]), 2).tolist() == [[0, 1], [0, 0]]


def test_confusion_of_a_stack_is_the_stack_of_confusions() -> None:
    draw = torch.Generator().manual_seed(0)
    predicted = torch.randint(4, (2, 3, 50), generator=draw)
    truth = torch.randint(4, (2, 3, 50), generator=draw)
    stacked = metrics.confusion(predicted, truth, 4)
    shared = metrics.confusion(predicted, truth[0, 0], 4)
    assert stacked.shape == (2, 3, 4, 4)
    for i in range(2):
        for k in range(3):
            assert torch.equal(stacked[i, k], metrics.confusion(predicted[i, k], truth[i, k], 4))
            assert torch.equal(shared[i, k], metrics.confusion(predicted[i, k], truth[0, 0], 4))


def test_confusion_leaves_padding_out_whatever_it_holds() -> None:
    predicted, truth = torch.tensor([[0, 1, 99], [1, 0, 0]]), torch.tensor([[0, 0, -1], [1, -1, -1]])
    live = torch.tensor([[True, True, False], [True, False, False]])
    assert metrics.confusion(predicted, truth, 2, live).tolist() == [[[1, 1], [0, 0]], [[0, 0], [0, 1]]]


def test_a_mask_of_numbers_is_a_mask() -> None:
    predicted, truth = torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1])
    for live in (torch.tensor([1, 0, 0]), torch.tensor([1.0, 0.0, 0.0])):
        assert metrics.confusion(predicted, truth, 2, live).tolist() == [[1, 0], [0, 0]]


def test_components_and_labels_are_of_the_same_samples() -> None:
    for labels in (torch.tensor([0]), torch.tensor([[0], [1], [1]])):
        with pytest.raises(DataError, match="cannot be compared"):
            metrics.component_accuracy(torch.zeros(3, 2), labels)


def test_both_readings_of_tl_are_of_the_clients_with_a_test_set() -> None:
    tp, tr = torch.tensor([0.9, torch.nan, 0.0, 0.5]), torch.tensor([0.3, 0.4, 0.0, 0.2])
    known = ~tp.isnan()
    found, expected = metrics.local_test(tp, tr), metrics.local_test(tp[known], tr[known])
    assert torch.allclose(torch.stack([*found]), torch.stack([*expected]))


def test_confusion_accepts_byte_labels() -> None:
    labels = torch.full((300,), 199, dtype=torch.uint8)
    assert metrics.confusion(torch.full((300,), 199), labels, 200)[199, 199] == 300


@pytest.mark.parametrize(
    ("predicted", "truth", "message"),
    [
        ([0, 1], [0, 2], "labels run from 0 to 2"),
        ([0, -1], [0, 1], "predictions run from -1"),
        ([0, 1], [0], r"shape \[2\] cannot be compared with labels of shape \[1\]"),
    ],
)
def test_confusion_refuses_what_would_land_in_a_wrong_cell(
    predicted: list[int], truth: list[int], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        metrics.confusion(torch.tensor(predicted), torch.tensor(truth), 2)


# functions of confusion matrices


@quick
@given(pairs)
def test_macro_f1_agrees_with_scikit_learn(drawn: list[tuple[int, int]]) -> None:
    truth, predicted = split(drawn)
    everything = sk.f1_score(truth, predicted, labels=range(CLASSES), average="macro", zero_division=0)
    present = sk.f1_score(truth, predicted, average="macro", zero_division=0)
    same(metrics.macro_f1(matrix(drawn)), f64(everything)[0])
    same(metrics.macro_f1(matrix(drawn), "present"), f64(present)[0])


def test_macro_f1_by_hand() -> None:
    # Class 0: 5 right of 6 + 6 named; class 1: 3 right of 4 + 4; class 2 absent. F1 = 10/12, 6/8, none.
    same(metrics.macro_f1(A, "present"), f64((10 / 12 + 6 / 8) / 2)[0])
    same(metrics.macro_f1(A), f64((10 / 12 + 6 / 8) / 3)[0])


def test_macro_f1_names_its_choices() -> None:
    with pytest.raises(ConfigError, match="present"):
        metrics.macro_f1(A, "presnt")  # type: ignore[arg-type]


def test_an_empty_test_set_has_no_value_and_is_left_out_of_means() -> None:
    empty = metrics.confusion(
        torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64), CLASSES
    )
    assert torch.equal(empty, NOTHING)
    counts = torch.ones(CLASSES)
    for value in (metrics.accuracy(empty), metrics.macro_f1(empty), metrics.macro_f1(empty, "present")):
        assert value.isnan()
    assert metrics.per_class(empty).isnan().all()
    assert all(value.isnan() for value in metrics.group_accuracy(empty, counts))
    right = matrix([(0, 0), (1, 1)])
    both = torch.stack([right, empty])
    assert metrics.pooled(both) == metrics.mean_over_clients(metrics.accuracy(both)) == 1
    assert metrics.pooled(both[1:]).isnan()


def test_pooled_and_mean_accuracy_differ_when_sizes_do() -> None:
    cms = torch.stack([A, B])
    same(metrics.accuracy(cms), f64(0.8, 0.0))
    same(metrics.pooled(cms), f64(8 / 12)[0])
    same(metrics.mean_over_clients(metrics.accuracy(cms)), f64(0.4)[0])


def test_a_client_with_one_class() -> None:
    cm = matrix([(3, 3), (3, 3), (3, 0)])
    same(metrics.accuracy(cm), f64(2 / 3)[0])
    same(metrics.macro_f1(cm, "present"), f64((0.8 + 0.0) / 2)[0])
    counts = torch.tensor([0, 0, 0, 7, 0])
    found = metrics.group_accuracy(cm, counts)
    same(found.majority, f64(2 / 3)[0])
    assert found.minority.isnan()
    assert found.missing.isnan()


@quick
@given(st.lists(pairs, min_size=1, max_size=4), st.data())
def test_stacked_matrices_give_the_same_as_one_at_a_time(
    clients: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    cms = torch.stack([matrix(drawn) for drawn in clients] + [NOTHING])
    row = st.lists(st.integers(0, 6), min_size=CLASSES, max_size=CLASSES)
    counts = torch.tensor([data.draw(row) for _ in cms])
    same(metrics.accuracy(cms), torch.stack([metrics.accuracy(cm) for cm in cms]))
    same(metrics.per_class(cms), torch.stack([metrics.per_class(cm) for cm in cms]))
    same(metrics.macro_f1(cms), torch.stack([metrics.macro_f1(cm) for cm in cms]))
    same(metrics.macro_f1(cms, "present"), torch.stack([metrics.macro_f1(cm, "present") for cm in cms]))
    alone = [metrics.group_accuracy(cm, n) for cm, n in zip(cms, counts, strict=True)]
    for name, stacked in metrics.group_accuracy(cms, counts)._asdict().items():
        same(stacked, torch.stack([getattr(one, name) for one in alone]))


# majority, minority, missing


def test_groups_by_hand_with_a_share_of_exactly_one_in_c_in_the_minority() -> None:
    found = metrics.groups(torch.tensor([[2, 5, 1, 2, 0], [4, 4, 4, 4, 4], [9, 0, 0, 0, 0], [0, 0, 0, 0, 0]]))
    assert found.majority.int().tolist() == [[0, 1, 0, 0, 0], [0] * 5, [1, 0, 0, 0, 0], [0] * 5]
    assert found.minority.int().tolist() == [[1, 0, 1, 1, 0], [1] * 5, [0] * 5, [0] * 5]
    assert found.missing.int().tolist() == [[0, 0, 0, 0, 1], [0] * 5, [0, 1, 1, 1, 1], [1] * 5]


@pytest.mark.parametrize("kind", [torch.uint8, torch.int64, torch.float32])
def test_an_even_client_has_no_majority_at_any_number_of_classes(kind: torch.dtype) -> None:
    for classes in range(1, 120):
        found = metrics.groups(torch.full((classes,), 7, dtype=kind))
        assert found.minority.all()
        assert not found.majority.any()


def test_groups_do_not_overflow_small_integers() -> None:
    assert metrics.groups(torch.tensor([200, 10], dtype=torch.uint8)).majority.tolist() == [True, False]


def test_group_accuracy_pools_the_samples_of_its_classes() -> None:
    cm = torch.tensor([[8, 2, 0, 0], [1, 1, 0, 0], [0, 3, 1, 0], [2, 0, 0, 0]])
    found = metrics.group_accuracy(cm, torch.tensor([90, 5, 5, 0]))
    same(torch.stack(found), f64(8 / 10, (1 + 1) / (2 + 4), 0.0))


@quick
@given(pairs, st.lists(st.integers(0, 6), min_size=CLASSES, max_size=CLASSES))
def test_group_accuracy_agrees_with_a_loop_over_samples(
    drawn: list[tuple[int, int]], counts: list[int]
) -> None:
    hits: dict[str, list[bool]] = {"majority": [], "minority": [], "missing": []}
    for truth, predicted in drawn:
        if counts[truth] == 0:
            kind = "missing"
        else:
            kind = "majority" if counts[truth] * CLASSES > sum(counts) else "minority"
        hits[kind].append(truth == predicted)
    found = metrics.group_accuracy(matrix(drawn), torch.tensor(counts))
    for kind, value in found._asdict().items():
        same(value, f64(sum(hits[kind]) / len(hits[kind]) if hits[kind] else math.nan)[0])


def test_one_model_is_split_by_the_counts_of_every_client() -> None:
    found = metrics.group_accuracy(A, torch.tensor([[9, 1, 0], [0, 9, 1]]))
    same(found.majority, f64(5 / 6, 3 / 4))
    same(found.minority, f64(3 / 4, math.nan))
    same(found.missing, f64(math.nan, 5 / 6))


# over clients


@quick
@given(shares)
def test_spread_is_the_population_deviation(values: list[float]) -> None:
    same(metrics.spread(f64(*values, math.nan)), f64(float(np.std(values)))[0])


def test_worst_share_by_hand() -> None:
    values = f64(0.9, 0.1, 0.5, math.nan, 0.3)
    same(metrics.worst_share(values), f64(0.1)[0])
    same(metrics.worst_share(values, 0.5), f64(0.2)[0])
    same(metrics.worst_share(values, 0.51), f64(0.3)[0])
    same(metrics.worst_share(values, 1.0), f64(0.45)[0])
    assert metrics.worst_share(f64(math.nan)).isnan()


def test_worst_share_is_not_fooled_by_rounding() -> None:
    assert 0.07 * 100 > 7
    same(metrics.worst_share(torch.arange(100).double(), 0.07), f64(3.0)[0])


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5])
def test_worst_share_refuses_a_share_that_is_none(share: float) -> None:
    with pytest.raises(ConfigError, match=str(share)):
        metrics.worst_share(f64(0.5), share)


def test_harmonic_by_hand() -> None:
    same(metrics.harmonic(f64(1.0, 0.0, 0.0, 0.5), f64(1.0, 0.0, 0.7, 0.25)), f64(1.0, 0.0, 0.0, 1 / 3))
    assert metrics.harmonic(f64(math.nan), f64(0.5)).isnan().all()


def test_local_test_averages_harmonic_means_first() -> None:
    found = metrics.local_test(f64(1.0, 0.2), f64(0.25, 0.2))
    same(found.mean_of_harmonics, f64((0.4 + 0.2) / 2)[0])
    same(found.harmonic_of_means, f64(2 * 0.6 * 0.225 / 0.825)[0])


@quick
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_local_test_per_client_is_never_above_the_other_reading(drawn: list[tuple[float, float]]) -> None:
    found = metrics.local_test(f64(*(tp for tp, _ in drawn)), f64(*(tr for _, tr in drawn)))
    assert found.mean_of_harmonics <= found.harmonic_of_means + 1e-12


# over rounds


def test_rounds_to_target() -> None:
    values = [0.1, 0.5, 0.4, 0.6]
    assert metrics.rounds_to_target(values, 0.5) == 2
    assert metrics.rounds_to_target(values, 0.55, rounds=[5, 10, 15, 20]) == 20
    assert metrics.rounds_to_target(values, 0.7) is None
    assert metrics.rounds_to_target([math.nan, 0.9], 0.5) == 2
    assert metrics.rounds_to_target([], 0.5) is None
    assert metrics.rounds_to_target(np.array(values), 0.55, rounds=np.array([5, 10, 15, 20])) == 20
    assert metrics.last(np.array(values)) == values[-1]


def test_last_and_mean_last_never_pick_the_best() -> None:
    values = [9.0] + [0.1 * i for i in range(12)]
    assert metrics.last(values) == pytest.approx(1.1)
    assert metrics.mean_last(values) == pytest.approx(sum(values[-10:]) / 10)
    assert metrics.mean_last(values, 2) == pytest.approx(1.05)
    assert metrics.mean_last([0.2, 0.4]) == pytest.approx(0.3)
    assert metrics.mean_last([0.2, math.nan]) == pytest.approx(0.2)
    assert math.isnan(metrics.last([]))
    assert math.isnan(metrics.mean_last([]))
    with pytest.raises(ConfigError, match="at least 1"):
        metrics.mean_last(values, 0)


# ensembles

# Two lukewarm models and a sure one that nearly rules class 0 out. The sums of probabilities are
# 0.901, 0.999, 1.1; the products 0.0002, 0.0366, 0.028; the votes 2, 0, 1: three ways, three winners.
TRIO = torch.tensor([[[0.45, 0.35, 0.2]], [[0.45, 0.35, 0.2]], [[0.001, 0.299, 0.7]]]).log()


@pytest.mark.parametrize(("how", "winner"), [("probability", 2), ("log_probability", 1), ("vote", 0)])
def test_the_three_ensembles_by_hand(how: str, winner: int) -> None:
    assert metrics.ensemble(TRIO, how).tolist() == [winner]
    assert metrics.ensemble((one for one in TRIO), how).tolist() == [winner]


@pytest.mark.parametrize("how", ["probability", "log_probability", "vote"])
def test_ensembles_agree_with_a_loop(how: str) -> None:
    logits = 3 * torch.randn(4, 30, CLASSES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = []
    for n in range(30):
        score = [0.0] * CLASSES
        for row in logits[:, n].tolist():
            total = sum(math.exp(z) for z in row)
            for c, z in enumerate(row):
                p = math.exp(z) / total
                vote = float(z == max(row))
                score[c] += {"probability": p, "log_probability": math.log(p), "vote": vote}[how]
        expected.append(score.index(max(score)))
    assert metrics.ensemble(logits, how).tolist() == expected
    streamed = torch.zeros(30, CLASSES, dtype=torch.float64)
    for one in logits:
        streamed += metrics.ballot(one, how)
    assert metrics.predict(streamed).tolist() == expected


def test_a_tied_vote_goes_to_the_lowest_class() -> None:
    logits = torch.tensor([[[0.0, 0.0, 9.0]], [[0.0, 9.0, 0.0]]])
    assert metrics.ensemble(logits, "vote").tolist() == [1]


def test_an_ensemble_of_many_half_precision_models_does_not_saturate() -> None:
    logits = torch.tensor([[9.0, 0.0]] * 400 + [[0.0, 9.0]] * 600, dtype=torch.bfloat16)[:, None]
    assert metrics.ensemble(logits).tolist() == [1]


def test_ensembles_name_their_choices_and_need_a_model() -> None:
    with pytest.raises(ConfigError, match="log_probability"):
        metrics.ensemble(TRIO, "mean")
    with pytest.raises(ConfigError, match="at least one"):
        metrics.ensemble([])


# one-vs-all components


def test_component_accuracy_by_hand() -> None:
    logits = torch.tensor([[2.0, -1.0, 0.0], [1.0, 1.0, -1.0], [-1.0, -1.0, -1.0], [-2.0, 3.0, 1.0]])
    labels = torch.tensor([0, 1, 2, 2])
    same(metrics.component_accuracy(logits, labels), f64(3 / 4, 3 / 4, 3 / 4))
    assert metrics.component_accuracy(torch.zeros(1, 2), torch.tensor([1])).tolist() == [1.0, 0.0]
    assert metrics.component_accuracy(torch.zeros(0, 2), torch.tensor([], dtype=torch.int64)).isnan().all()
    with pytest.raises(DivergedError):
        metrics.component_accuracy(torch.tensor([[math.nan, 0.0]]), torch.tensor([0]))
