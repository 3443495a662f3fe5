"""Partitions against plain loops written from their definitions, and what must hold for any of them."""

import math
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon

from fedskew.data import artefact
from fedskew.data import partition as parts
from fedskew.data.partition import dealing
from fedskew.data.partition.base import Samples
from fedskew.errors import ConfigError, DataError
from fedskew.keys import stream

Ints = NDArray[np.int64]
CLASSES = 5
OWN_TEST = (parts.Incomplete, parts.Natural)
SCHEMES = [
    parts.IID(7),
    parts.Dirichlet(0.5, 7),
    parts.Dirichlet(0.1, 6, balanced=True, minimum=3),
    parts.Dirichlet(0.5, 7, balanced="if_needed"),
    parts.Shards(2, 7),
    parts.Shards(2, 7, distinct=True),
    parts.Labels(2, 10),
    parts.Labels(4, 10),
    parts.Incomplete(8),
    parts.Incomplete(8, classes_per_client=2),
    parts.PowerLaw(9),
    parts.Natural(),
]


class Pool:
    """Labels of a pool in random order, with train, test and unused positions mixed."""

    def __init__(self, train: int = 600, test: int = 150, classes: int = CLASSES, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.labels = random.integers(0, classes, train + test + 20)
        self.labels[:classes] = np.arange(classes)
        order = random.permutation(len(self.labels))
        self.train, self.test = order[:train], order[train : train + test]
        self.owners = random.integers(100, 112, len(self.labels))
        self.owners[self.test] += 1000
        self.classes = classes

    def split(self, scheme: parts.Scheme, seed: int = 0) -> parts.Partition:
        return parts.split(scheme, self.labels, self.train, self.test, seed, self.owners)

    def counts(self, rows: tuple[Ints, ...]) -> Ints:
        return parts.counts(self.labels, rows, self.classes)

    def totals(self, positions: Ints) -> Ints:
        return np.bincount(self.labels[positions], minlength=self.classes)


def same(a: parts.Partition, b: parts.Partition) -> bool:
    rows = zip((*a.train, *a.test), (*b.train, *b.test), strict=True)
    return a.novel == b.novel and all(np.array_equal(x, y) for x, y in rows)


def cuts(shares: NDArray[np.float64], totals: Ints) -> Ints:
    """Cuts at floor(cumsum(p) * n), p scaled to sum to one, for K - 1 clients; the rest is the last one's."""
    sizes = np.zeros(shares.shape, dtype=np.int64)
    for c, total in enumerate(totals.tolist()):
        column = shares[:, c].tolist()
        running, before = 0.0, 0
        for k in range(len(column) - 1):
            running += column[k]
            edge = math.floor(running / sum(column) * total)
            sizes[k, c], before = edge - before, edge
        sizes[-1, c] = total - before
    return sizes


# What holds for all


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_sample_has_two_owners_and_none_changes_sides(scheme: parts.Scheme, seed: int) -> None:
    pool = Pool(seed=seed)
    partition = pool.split(scheme, seed)
    train, test = np.concatenate(partition.train), np.concatenate(partition.test)
    assert len(set(train.tolist()) | set(test.tolist())) == len(train) + len(test)
    assert set(train.tolist()) <= set(pool.train.tolist())
    assert set(test.tolist()) <= set((pool.train if isinstance(scheme, OWN_TEST) else pool.test).tolist())
    assert len(partition.train) == len(partition.test)
    assert min(map(len, partition.train)) > 0
    assert partition.train[0].dtype == np.int64


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_all_data_are_used_where_the_scheme_promises_it(scheme: parts.Scheme) -> None:
    pool = Pool()
    partition = pool.split(scheme)
    used = sum(map(len, partition.train)) + sum(map(len, partition.test))
    shards = isinstance(scheme, parts.Shards) and not scheme.distinct
    if isinstance(scheme, parts.Natural):
        assert used == len(pool.train)
    elif isinstance(scheme, parts.Incomplete):
        assert used >= len(pool.train) - 8 * CLASSES
    else:
        assert sum(map(len, partition.train)) == (len(pool.train) - 600 % 14 if shards else len(pool.train))
        assert sum(map(len, partition.test)) == len(pool.test)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_the_seed_alone_decides(scheme: parts.Scheme) -> None:
    pool = Pool()
    first = pool.split(scheme, 3)
    np.random.seed(99)
    assert same(first, pool.split(scheme, 3))
    assert not same(first, pool.split(scheme, 4))


def test_without_test_samples_every_client_has_an_empty_test() -> None:
    pool = Pool()
    for scheme in SCHEMES[:8]:
        partition = parts.split(scheme, pool.labels, pool.train, pool.test[:0], 0)
        assert [len(part) for part in partition.test] == [0] * len(partition.train)


def test_every_sample_has_the_same_chance() -> None:
    """Which samples of a class a client gets, and which become its test, does not depend on their place."""
    random, rounds = np.random.default_rng(0), 2000
    labels, owner = np.zeros(12, dtype=np.int64), np.repeat([0, 1, dealing.NOBODY], [5, 5, 2])
    got, tested, marked = np.zeros(12), np.zeros(12), np.zeros(12)
    for _ in range(rounds):
        got += dealing.hand_out(labels, np.array([[3], [6]]), random) == 1
        tested += dealing.sample(owner, 0.4, random)
        marked += dealing.stratified(owner, labels, 0.3, random)
    assert got / rounds == pytest.approx(np.full(12, 6 / 12), abs=0.05)
    assert tested / rounds == pytest.approx(np.repeat([2 / 5, 0], [10, 2]), abs=0.05)
    assert marked / rounds == pytest.approx(np.repeat([0.3, 0], [10, 2]), abs=0.05)


# Dirichlet


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("beta", [0.1, 0.5, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_dirichlet_cuts_train_and_test_at_the_same_shares(beta: float, balanced: bool, seed: int) -> None:
    pool = Pool(train=900, seed=seed)
    scheme = parts.Dirichlet(beta, 6, balanced, minimum=5)
    partition = pool.split(scheme, seed)
    shares = scheme.shares(pool.totals(pool.train), stream("partition", seed))
    assert np.array_equal(pool.counts(partition.train), cuts(shares, pool.totals(pool.train)))
    assert np.array_equal(pool.counts(partition.test), cuts(shares, pool.totals(pool.test)))
    assert min(map(len, partition.train)) >= 5


@pytest.mark.parametrize("beta", [0.05, 0.3, 2.0])
def test_dirichlet_shares_have_the_moments_of_the_distribution(beta: float) -> None:
    clients, totals = 8, np.full(2000, 1000)
    shares = parts.Dirichlet(beta, clients, minimum=1).shares(totals, np.random.default_rng(0))
    variance = (clients - 1) / clients**2 / (clients * beta + 1)
    assert shares.sum(axis=0) == pytest.approx(np.ones(2000))
    assert shares.mean() == pytest.approx(1 / clients)
    assert ((shares - 1 / clients) ** 2).mean() == pytest.approx(variance, rel=0.1)


@given(st.integers(0, 1000), st.sampled_from([1e-6, 0.01, 0.5, 1e6]), st.integers(1, 12))
@settings(deadline=None, max_examples=40)
def test_balance_gives_nothing_to_a_client_that_has_its_share(seed: int, beta: float, clients: int) -> None:
    totals = np.array([30, 0, 41, 7, 22, 0])
    shares = parts.Dirichlet(beta, clients)._draw_balanced(totals, np.random.default_rng(seed))
    sizes, held = cuts(shares, totals), np.zeros(clients, dtype=np.int64)
    for c in range(len(totals)):
        assert shares[:, c].sum() == pytest.approx(1)
        for k in range(clients):
            assert sizes[k, c] == 0 or held[k] < totals.sum() / clients
        held += sizes[:, c]


def test_balanced_draws_are_masked_and_scaled_dirichlet_draws() -> None:
    """Two classes of 100: who got at least 50 of the first gets nothing of the second (NIID-Bench)."""
    random, clients, beta = np.random.default_rng(0), 4, 0.7
    scheme = parts.Dirichlet(beta, clients)
    ours = [scheme._draw_balanced(np.array([100, 100]), random)[:, 1] for _ in range(3000)]
    theirs = []
    while len(theirs) < 3000:
        first, second = random.dirichlet([beta] * clients, size=2)
        held = cuts(first[:, None], np.array([100]))[:, 0]
        second = np.array([p * (n < 200 / clients) for p, n in zip(second, held, strict=True)])
        theirs.append(second / second.sum())
    assert np.mean(ours, axis=0) == pytest.approx(np.mean(theirs, axis=0), abs=0.02)
    assert np.std(ours, axis=0) == pytest.approx(np.std(theirs, axis=0), abs=0.02)
    assert np.mean(np.array(ours) == 0) == pytest.approx(np.mean(np.array(theirs) == 0), abs=0.02)


def test_balance_if_needed_is_plain_until_plain_fails() -> None:
    pool = Pool()
    assert same(pool.split(parts.Dirichlet(0.5, 6, "if_needed")), pool.split(parts.Dirichlet(0.5, 6)))
    hard = Pool(classes=50)
    with pytest.raises(ConfigError, match=r"40 clients x 10 samples = 400 of 600.*1000 draws at beta 0\.2"):
        hard.split(parts.Dirichlet(0.2, 40))
    assert min(map(len, hard.split(parts.Dirichlet(0.2, 40, "if_needed")).train)) >= 10


def test_dirichlet_refuses_at_once_what_cannot_work() -> None:
    start = time.perf_counter()
    with pytest.raises(ConfigError, match="61 clients x 10 samples = 610, but there are only 600"):
        Pool().split(parts.Dirichlet(0.5, 61))
    assert time.perf_counter() - start < 1


# Shards and labels


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 50))
@settings(deadline=None, max_examples=40)
def test_shards_are_runs_of_the_sorted_samples_each_dealt_once(clients: int, alpha: int, seed: int) -> None:
    pool = Pool(train=97, seed=seed)
    partition = pool.split(parts.Shards(alpha, clients), seed)
    ranked = sorted(pool.train.tolist(), key=lambda position: int(pool.labels[position]))
    size = 97 // (clients * alpha)
    shard_of = {position: place // size for place, position in enumerate(ranked[: size * clients * alpha])}
    dealt = []
    for part in partition.train:
        mine = Counter(shard_of[position] for position in part.tolist())
        assert set(mine.values()) == {size}
        assert len(mine) == alpha
        dealt += list(mine)
    assert sorted(dealt) == list(range(clients * alpha))


@given(st.integers(1, 40), st.integers(1, CLASSES), st.integers(0, 50))
@settings(deadline=None, max_examples=40)
def test_distinct_shards_give_each_client_its_number_of_labels(clients: int, alpha: int, seed: int) -> None:
    pool = Pool(seed=seed)
    table = pool.counts(pool.split(parts.Shards(alpha, clients, distinct=True), seed).train)
    for k in range(clients):
        assert (table[k] > 0).sum() == alpha
        assert table[k, k % CLASSES] > 0
    for c in range(CLASSES):
        sizes = table[table[:, c] > 0, c]
        assert len(sizes) == 0 or sizes.max() - sizes.min() <= 1
        assert sizes.sum() == (pool.totals(pool.train)[c] if len(sizes) else 0)


@st.composite
def label_requests(draw: st.DrawFn) -> tuple[int, int, int]:
    """Classes, labels for each client and clients, such that the parts come out even."""
    classes = draw(st.integers(1, 12))
    labels = draw(st.integers(1, classes))
    return classes, labels, classes // math.gcd(classes, labels) * draw(st.integers(1, 5))


@given(label_requests(), st.integers(0, 1000))
@settings(deadline=None, max_examples=150)
def test_labels_deal_every_part_once_and_exactly_l_to_a_client(case: tuple[int, int, int], seed: int) -> None:
    classes, per_client, clients = case
    pool = Pool(train=70 * classes, test=0, classes=classes, seed=seed)
    table = pool.counts(pool.split(parts.Labels(per_client, clients), seed).train)
    copies = per_client * clients // classes
    for k in range(clients):
        assert (table[k] > 0).sum() == per_client
    for c, total in enumerate(pool.totals(pool.train).tolist()):
        sizes = sorted(size for size in table[:, c].tolist() if size)
        near_equal = sorted(total // copies + (part < total % copies) for part in range(copies))
        assert sizes == near_equal


@given(label_requests(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=150)
def test_duplicates_are_swapped_away_from_any_deal(case: tuple[int, int, int], shuffle: object) -> None:
    """Also from the worst one, in which a client has a single label as often as it can."""
    classes, per_client, clients = case
    multiset = sorted(list(range(classes)) * (per_client * clients // classes))
    mixed = multiset.copy()
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    for deal in (multiset, mixed):
        held = np.zeros((clients, classes), dtype=np.int64)
        for place, label in enumerate(deal):
            held[place // per_client, label] += 1
        before = held.copy()
        holds = dealing.distinct(held, np.random.default_rng(0))
        assert np.array_equal(holds.sum(axis=0), before.sum(axis=0))
        assert np.array_equal(holds.sum(axis=1), before.sum(axis=1))
        assert np.array_equal(held, before)


def test_labels_are_dealt_evenly_among_pairs() -> None:
    """Every pair of labels is about equally frequent, so no construction order shows through."""
    holds = parts.Labels(2, 5000).ownership(5, np.random.default_rng(0))
    pairs = Counter(tuple(np.flatnonzero(row).tolist()) for row in holds)
    assert len(pairs) == 10
    assert min(pairs.values()) > 400
    assert max(pairs.values()) < 600


# Own tests


@pytest.mark.parametrize("chosen", [None, 2])
@pytest.mark.parametrize("seed", range(5))
def test_incomplete_classes_follow_the_definition(chosen: int | None, seed: int) -> None:
    pool = Pool(seed=seed)
    scheme = parts.Incomplete(8, chosen, minimum=2)
    partition = pool.split(scheme, seed)
    random, totals = stream("partition", seed), pool.totals(pool.train)
    owns = scheme.ownership(Samples(pool.train, pool.labels[pool.train], totals, None), random)
    scale = random.lognormal(0, 0.3, (8, 1))[:, 0]
    wish, left = np.zeros((8, CLASSES), dtype=np.int64), totals.copy()
    for c in range(CLASSES):
        weights = [owns[k, c] / owns[k].sum() * scale[k] for k in range(8)]
        for k in range(8):
            wish[k, c] = min(round(totals[c] * weights[k] / sum(weights)), left[c])
            left[c] -= wish[k, c]
    assert owns.any(axis=0).all()
    assert all(2 <= many <= CLASSES if chosen is None else many == chosen for many in owns.sum(axis=1))
    assert np.array_equal(pool.counts(partition.train) + pool.counts(partition.test), wish)
    for train, test in zip(partition.train, partition.test, strict=True):
        assert len(test) == max(1, int(0.2 * (len(train) + len(test))))


@pytest.mark.parametrize(
    ("scheme", "least", "most"),
    [
        (parts.Incomplete(20), 2, 4),
        (parts.Incomplete(20, classes_per_client=2), 2, 2),
        (parts.Labels(2, 10), 2, 2),
        (parts.Shards(3, 10, distinct=True), 3, 3),
    ],
)
def test_classes_without_a_training_sample_are_not_dealt(scheme: parts.Scheme, least: int, most: int) -> None:
    labels = np.array([0, 2, 3, 6])[np.arange(2000) % 4]
    partition = parts.split(scheme, labels, np.arange(1600), np.arange(1600, 2000), 0)
    held = parts.counts(labels, partition.train, 7) + parts.counts(labels, partition.test, 7)
    assert set((held > 0).sum(axis=1).tolist()) <= set(range(least, most + 1))
    assert not held[:, [1, 4, 5]].any()


def test_incomplete_draws_every_number_of_classes_equally() -> None:
    samples = Samples(np.arange(0), np.arange(0), np.full(5, 9), None)
    owns = parts.Incomplete(8000).ownership(samples, np.random.default_rng(0))
    assert np.bincount(owns.sum(axis=1)) == pytest.approx([0, 0, 2000, 2000, 2000, 2000], abs=150)
    assert owns.mean(axis=0) == pytest.approx(np.full(5, 3.5 / 5), abs=0.02)


def test_incomplete_draws_anew_where_a_class_lost_its_last_training_sample() -> None:
    labels = np.repeat(np.arange(10), 15)
    samples = Samples(np.arange(150), labels, np.bincount(labels), None)
    for seed in range(20):
        partition = parts.Incomplete(40, 2).deal(samples, samples, np.random.default_rng(seed))
        assert np.bincount(labels[np.concatenate(partition.train)], minlength=10).min() > 0


def test_incomplete_says_which_classes_are_too_small_for_so_many_clients() -> None:
    labels = np.repeat([0, 1, 2], [2000, 987, 13])
    samples = Samples(np.arange(3000), labels, np.bincount(labels), None)
    with pytest.raises(ConfigError, match=r"no training sample .* use fewer clients"):
        parts.Incomplete(100, 2, sigma=0.0).deal(samples, samples, np.random.default_rng(0))


def test_equal_shares_are_cut_equally() -> None:
    shares = np.full((100, 2), 0.01)
    assert (dealing.cut(shares, np.array([100, 5000])) == [1, 50]).all()


def test_incomplete_drops_clients_that_are_too_small() -> None:
    pool = Pool(train=300)
    large, small = parts.Incomplete(60, sigma=1.0, minimum=5), parts.Incomplete(60, sigma=1.0, minimum=2)
    kept, everyone = pool.split(large), pool.split(small)
    sizes = [len(a) + len(b) for a, b in zip(everyone.train, everyone.test, strict=True)]
    assert [len(a) + len(b) for a, b in zip(kept.train, kept.test, strict=True)] == [
        n for n in sizes if n >= 5
    ]
    assert len(kept.train) < len(everyone.train)
    with pytest.raises(ConfigError, match="no client has the minimum of 301 samples"):
        pool.split(parts.Incomplete(60, minimum=301))


def test_incomplete_refuses_classes_nobody_can_own() -> None:
    with pytest.raises(ConfigError, match="2 clients x 2 classes at most, to own 5 classes"):
        Pool().split(parts.Incomplete(2, classes_per_client=2))
    with pytest.raises(ConfigError, match="left one without an owner in 1000 draws"):
        Pool(train=3000, classes=60).split(parts.Incomplete(30, classes_per_client=2))


@given(st.integers(0, 1000), st.floats(0, 0.5), st.integers(1, 300), st.integers(1, 20))
@settings(deadline=None, max_examples=60)
def test_natural_clients_keep_a_share_of_each_class(seed: int, share: float, size: int, owners: int) -> None:
    random = np.random.default_rng(seed)
    labels, owner = random.integers(0, CLASSES, size), random.integers(0, owners, size) * 10 - 5
    nothing = np.arange(0)
    partition = parts.split(parts.Natural(share), labels, np.arange(size), nothing, seed, owner)
    train = parts.counts(labels, partition.train, CLASSES)
    test = parts.counts(labels, partition.test, CLASSES)
    for k, name in enumerate(sorted(set(owner.tolist()))):
        assert set(owner[partition.train[k]].tolist()) == {name}
        assert set(owner[partition.test[k]].tolist()) <= {name}
        cells = np.bincount(labels[owner == name], minlength=CLASSES)
        assert np.array_equal(train[k] + test[k], cells)
        assert (test[k][cells < 2] == 0).all()
        assert (train[k][cells > 0] > 0).all()
        assert (np.abs(test[k] - share * np.where(cells < 2, 0, cells)) < 1 + 1e-9).all()
        assert abs(test[k].sum() - share * cells[cells > 1].sum()) < 1 + 1e-9


def test_natural_tests_are_the_owners_own_where_the_dataset_has_them() -> None:
    pool = Pool()
    pool.owners[pool.test] -= 1000
    pool.owners[pool.test[:3]] = 5  # somebody who has no training sample
    partition = pool.split(parts.Natural())
    names = sorted(set(pool.owners[pool.train].tolist()))
    for name, train, test in zip(names, partition.train, partition.test, strict=True):
        assert set(train.tolist()) == {p for p in pool.train.tolist() if pool.owners[p] == name}
        assert set(test.tolist()) == {p for p in pool.test.tolist() if pool.owners[p] == name}


def test_natural_drops_small_owners_and_needs_owners() -> None:
    labels = np.zeros(10, dtype=np.int64)
    owners = np.array([3, 3, 3, 3, 8, 9, 9, 9, 9, 9])
    partition = parts.split(parts.Natural(0, minimum=4), labels, np.arange(10), np.arange(0), 0, owners)
    assert [part.tolist() for part in partition.train] == [[0, 1, 2, 3], [5, 6, 7, 8, 9]]
    with pytest.raises(ConfigError, match="minimum of 6 samples: the largest of 3 has 5 of 10"):
        parts.split(parts.Natural(minimum=6), labels, np.arange(10), np.arange(0), 0, owners)
    with pytest.raises(ConfigError, match="names no owner"):
        parts.split(parts.Natural(), labels, np.arange(10), np.arange(0), 0)


# Power law, IID, matched tests


@pytest.mark.parametrize(("rho", "tau"), [(0.7, 0.5), (0.0, 1.5)])
def test_power_law_weights_and_cuts(rho: float, tau: float) -> None:
    pool = Pool(train=3000, test=999)
    scheme = parts.PowerLaw(9, rho, tau)
    partition = pool.split(scheme, 5)
    weights = scheme.weights(CLASSES, stream("partition", 5))
    orders = set()
    for m in range(9):
        expected = [(m + 1) ** -rho * (rank + 1) ** -tau for rank in range(CLASSES)]
        assert sorted(weights[m], reverse=True) == pytest.approx(expected)
        orders.add(tuple(np.argsort(-weights[m]).tolist()))
    assert len(orders) > 1
    assert np.array_equal(pool.counts(partition.train), cuts(weights, pool.totals(pool.train)))
    assert np.array_equal(pool.counts(partition.test), cuts(weights, pool.totals(pool.test)))


def test_iid_parts_differ_by_one_sample_at_most() -> None:
    sizes = [len(part) for part in Pool(train=601).split(parts.IID(7)).train]
    assert sorted(sizes) == [85, 86, 86, 86, 86, 86, 86]


@given(st.integers(0, 1000), st.integers(1, 9), st.integers(1, 6))
@settings(deadline=None, max_examples=60)
def test_a_matched_test_has_the_class_shares_of_the_training_set(
    seed: int, clients: int, classes: int
) -> None:
    random = np.random.default_rng(seed)
    counts = random.integers(0, 4, (clients, classes)) * random.integers(0, 300, (clients, classes))
    totals = random.integers(0, 200, classes)
    sizes = dealing.matched(counts, totals)
    for c in range(classes):
        whole = int(counts[:, c].sum())
        assert sizes[:, c].sum() == (totals[c] if whole else 0)
        for k in range(clients):
            exact = Fraction(int(counts[k, c]) * int(totals[c]), whole or 1)
            assert abs(int(sizes[k, c]) - exact) < 1
            assert counts[k, c] > 0 or sizes[k, c] == 0


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if not isinstance(s, OWN_TEST)], ids=str)
def test_local_tests_have_the_proportions_of_the_training_data(scheme: parts.Scheme) -> None:
    pool = Pool(train=6000, test=3000)
    partition = pool.split(scheme)
    train, test = pool.counts(partition.train), pool.counts(partition.test)
    expected = train / train.sum(axis=0) * pool.totals(pool.test)
    assert np.abs(test - expected).max() <= 1.5


# Novel clients, measures, names, refusals


@given(st.floats(0, 1), st.integers(1, 12), st.integers(0, 99))
def test_held_out_clients(share: float, clients: int, seed: int) -> None:
    partition = Pool().split(parts.IID(clients))
    novel = parts.hold_out(partition, share, seed).novel
    assert len(novel) == min(math.floor(share * clients + 0.5), clients - 1)
    assert list(novel) == sorted(set(novel) & set(range(clients)))
    assert novel == parts.hold_out(partition, share, seed).novel


def test_held_out_clients_depend_on_the_seed_and_leave_the_rest_alone() -> None:
    partition = Pool().split(parts.IID(40))
    marked = [parts.hold_out(partition, 0.3, seed) for seed in range(5)]
    assert len({each.novel for each in marked}) == 5
    assert marked[0].train is partition.train
    with pytest.raises(ConfigError, match=r"share of novel clients must be a number from 0 to 1, not 1\.2"):
        parts.hold_out(partition, 1.2, 0)


def test_counts_and_summary_by_hand() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2])
    table = parts.counts(labels, (np.array([0, 1]), np.array([5, 2, 3])), 4)
    assert table.tolist() == [[2, 0, 0, 0], [0, 2, 1, 0]]
    assert parts.counts(labels.tolist(), ([0, 1], [], [5]), 3).tolist() == [[2, 0, 0], [0, 0, 0], [0, 0, 1]]  # type: ignore[arg-type, list-item]
    with pytest.raises(DataError, match="labels go from 0 to 2, but there are 2 classes"):
        parts.counts(labels, (np.array([0, 5]),), 2)
    assert parts.summary(table).missing == 5 / 8
    assert parts.summary(table).distinct == (1, 2)
    assert parts.summary(np.array([[3, 3], [1, 1]])).distance == pytest.approx(0, abs=1e-9)
    entropy = -0.75 * math.log2(0.75) - 0.25 * math.log2(0.25)
    assert parts.summary(np.array([[4, 0], [0, 4]])).distance == pytest.approx(math.sqrt(entropy - 0.5))


def test_summary_distance_agrees_with_scipy() -> None:
    table = np.random.default_rng(0).integers(0, 5, (20, 6))
    table[3] = 0
    rows = [row for row in table if row.sum()]
    expected = np.mean([jensenshannon(row, table.sum(axis=0), base=2) for row in rows])
    assert parts.summary(table).distance == pytest.approx(expected)


def test_schemes_by_name() -> None:
    assert parts.scheme("dirichlet", {"beta": 0.1, "clients": 20}) == parts.Dirichlet(0.1, 20)
    assert parts.scheme("PowerLaw", {"clients": 5}) == parts.PowerLaw(5)
    with pytest.raises(
        ConfigError, match=r"'dirichlt'.*Did you mean 'dirichlet'.*iid, incomplete, labels, natural"
    ):
        parts.scheme("dirichlt", {})
    with pytest.raises(ConfigError, match=r"'betta'. Did you mean 'beta'.*balanced, beta, clients, minimum"):
        parts.scheme("dirichlet", {"betta": 0.1, "clients": 20})
    with pytest.raises(ConfigError, match="dirichlet needs clients; it takes beta, clients"):
        parts.scheme("dirichlet", {"beta": 0.1})


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("iid", {"clients": 0}, "clients must be a whole number of at least 1, not 0"),
        ("iid", {"clients": True}, "not True"),
        ("dirichlet", {"beta": 0.0, "clients": 2}, "beta must be a number from 1e-06"),
        ("dirichlet", {"beta": math.nan, "clients": 2}, "not nan"),
        ("dirichlet", {"beta": "0.1", "clients": 2}, "not '0.1'"),
        ("dirichlet", {"beta": 1, "clients": 2, "balanced": "yes"}, "true, false or 'if_needed', not 'yes'"),
        ("dirichlet", {"beta": 1, "clients": 2, "minimum": 0}, "minimum must be"),
        ("shards", {"alpha": 1.5, "clients": 2}, "alpha must be"),
        ("shards", {"alpha": 1, "clients": 2, "distinct": "no"}, "distinct must be true or false, not 'no'"),
        ("incomplete", {"clients": 2, "classes_per_client": 0}, "classes_per_client must be"),
        ("incomplete", {"clients": 2, "test_share": 0.6}, "from 0 to 0.5, not 0.6"),
        ("powerlaw", {"clients": 2, "rho": math.inf}, "rho must be"),
        ("natural", {"minimum": 0}, "minimum must be"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parts.scheme(name, wrong)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (parts.IID(601), "601 clients, but only 600"),
        (parts.PowerLaw(10**9), "1000000000 clients, but only 600"),
        (parts.Labels(1, 10**9), "1000000000 clients, but only 600"),
        (parts.Incomplete(10**9), "1000000000 clients, but only 600"),
        (parts.Shards(3, 201), "201 clients x 3 shards = 603 shards.*only 600 samples"),
        (parts.Shards(6, 2, distinct=True), "6 classes for each client, but the data have only 5"),
        (parts.Labels(6, 5), "6 classes for each client, but the data have only 5"),
        (parts.Labels(2, 7), r"2 labels x 7 clients = 14 parts / 5 classes = 2\.80"),
        (parts.Labels(5, 200), r"class \d has 1\d\d samples for 200 clients"),
        (parts.PowerLaw(500, rho=3.0), r"leaves \d+ of 500 clients without a training sample \(600"),
    ],
    ids=str,
)
def test_requests_the_data_cannot_meet_are_refused_with_the_numbers(
    scheme: parts.Scheme, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Pool().split(scheme)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(4)}, "labels must be one row of integers, not float64"),
        ({"train": np.arange(0)}, "no training sample"),
        ({"train": np.array([0, 4])}, "from 0 to 4 in a pool of 4"),
        ({"test": np.array([-1])}, "from -1 to 1"),
        ({"test": np.array([1])}, "listed twice"),
        ({"labels": np.array([0, -1, 0, 0])}, "labels must be 0 or more; the least is -1"),
        ({"owners": np.arange(3)}, "3 owners for 4 samples"),
    ],
)
def test_pools_that_make_no_sense_are_refused(change: dict[str, Ints], message: str) -> None:
    pool = {"labels": np.zeros(4, dtype=np.int64), "train": np.arange(2), "test": np.arange(2, 4)} | change
    with pytest.raises(DataError, match=message):
        parts.split(parts.IID(1), **pool, seed=0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="seed must be a whole number of at least 0, not -1"):
        Pool().split(parts.IID(1), -1)


def test_lists_tensors_and_numbers_of_numpy_are_understood(tmp_path: Path) -> None:
    labels, train = [0, 1, 0, 1, 1], [0, 1, 2, 3]
    plain = parts.split(
        parts.Dirichlet(0.5, 2, minimum=1), np.array(labels), np.array(train), np.array([4]), 3
    )
    scheme = parts.Dirichlet(np.float32(0.5), np.int64(2), minimum=np.int32(1))
    found = parts.split(scheme, torch.tensor(labels), train, [4], np.int64(3))  # type: ignore[arg-type]
    assert [part.tolist() for part in found.train] == [part.tolist() for part in plain.train]
    assert parts.split(parts.IID(2), labels, train, [], 3).test[0].size == 0  # type: ignore[arg-type]
    artefact.save(tmp_path / "split.json", found, scheme, np.int64(3), np.array(labels))
    assert artefact.load(tmp_path / "split.json").settings["clients"] == 2


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_any_request_ends_in_a_partition_or_a_refusal(data: st.DataObject) -> None:
    clients, small, coin = data.draw(st.integers(1, 30)), st.integers(1, 6), st.booleans()
    scheme = data.draw(
        st.one_of(
            st.builds(parts.Dirichlet, st.floats(1e-6, 10), st.just(clients), coin, small),
            st.builds(parts.Shards, small, st.just(clients), coin),
            st.builds(parts.Labels, small, st.just(clients)),
            st.builds(parts.Incomplete, st.just(clients), st.none() | small, st.floats(0, 10)),
            st.builds(parts.PowerLaw, st.just(clients), st.floats(0, 10), st.floats(0, 10)),
        )
    )
    pool = Pool(train=data.draw(st.integers(1, 80)), test=data.draw(st.integers(0, 20)), classes=3)
    try:
        partition = pool.split(scheme)
    except ConfigError:
        return
    used = np.concatenate([*partition.train, *partition.test])
    assert len(np.unique(used)) == len(used)


# Speed


@pytest.mark.parametrize("clients", [1000, 10_000])
def test_sixty_thousand_samples_are_dealt_in_no_time(clients: int) -> None:
    pool = Pool(60_000, 10_000, classes=10)
    schemes = [
        parts.IID(clients),
        parts.Shards(2, clients),
        parts.Labels(2, clients),
        parts.Incomplete(clients),
    ]
    if clients == 1000:
        schemes += [
            parts.Dirichlet(0.5, clients, minimum=5),
            parts.PowerLaw(clients),
            parts.Labels(5, clients),
        ]
    for scheme in schemes:
        start = time.perf_counter()
        pool.split(scheme)
        assert time.perf_counter() - start < (1.5 if clients == 1000 else 6), scheme


def test_natural_speed() -> None:
    random = np.random.default_rng(0)
    labels, owners = random.integers(0, 62, 800_000), random.integers(0, 3500, 800_000)
    start = time.perf_counter()
    parts.split(parts.Natural(), labels, np.arange(800_000), np.arange(0), 0, owners)
    assert time.perf_counter() - start < 6
