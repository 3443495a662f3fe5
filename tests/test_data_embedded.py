"""Data that needs no file: scikit-learn's digits, and the synthetic clients of FedProx and LEAF."""

import numpy as np
import pytest
import torch

from fedskew.data import load, names, registry
from fedskew.data.split import stratified
from fedskew.data.synthetic import Synthetic
from fedskew.errors import ConfigError


def test_every_name_has_a_settings_class_of_that_name() -> None:
    for name in names():
        assert registry.settings(name).name == name


def test_wrong_names_and_options_say_what_is_right() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'mnist'"):
        load("minst")
    with pytest.raises(ConfigError, match="Did you mean 'clients'"):
        registry.dataset("synthetic", {"client": 3})
    with pytest.raises(ConfigError, match="arrays needs the option path"):
        registry.dataset("arrays")
    for wrong in ({"lam": -1.0}, {"clients": 0}, {"keep_classes": 11}, {"classes": 1}, {"thinning": 0.0}):
        with pytest.raises(ConfigError, match="synthetic"):
            registry.dataset("synthetic", wrong)


def test_digits_are_scaled_and_always_split_alike() -> None:
    data, again = load("digits"), load("digits")
    assert tuple(data.x.shape) == (1797, 1, 8, 8)
    assert (float(data.x.min()), float(data.x.max())) == (0, 1)
    assert np.bincount(data.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert sorted([*data.train, *data.test]) == list(range(1797))
    assert (data.test == again.test).all()
    shares = np.bincount(data.y[data.test]) / np.bincount(data.y)
    assert np.abs(shares - 0.2).max() < 0.005


def test_synthetic_follows_its_definition() -> None:
    """The generator as the spec states it, one draw after the other."""
    options = Synthetic(lam=0.7, mu=1.3, clients=4, seed=5)
    for k in range(4):
        rng = np.random.default_rng((5, k))
        size = int(np.exp(4 + 2 * rng.standard_normal())) + 50
        u, centre = 0.7 * rng.standard_normal(), 1.3 * rng.standard_normal()
        W = u + rng.standard_normal((10, 60))
        b = u + rng.standard_normal(10)
        v = centre + rng.standard_normal(60)
        variance = np.array([j**-1.2 for j in range(1, 61)])
        x = v + np.sqrt(variance) * rng.standard_normal((size, 60))
        y = [max(range(10), key=lambda c: float(W[c] @ row + b[c])) for row in x]
        ours, labels = options.client(k)
        np.testing.assert_allclose(ours, x, atol=1e-12)
        assert labels.tolist() == y


def test_synthetic_clients_are_owners_with_their_own_test_part() -> None:
    data = load("synthetic", {"clients": 20, "lam": 1.0, "mu": 1.0})
    assert data.owners is not None
    assert np.unique(data.owners).tolist() == list(range(20))
    sizes, held_out = np.bincount(data.owners), np.bincount(data.owners[data.test], minlength=20)
    assert sizes.min() >= 50
    assert np.abs(held_out / sizes - 0.2).max() < 0.08  # each class is rounded on its own
    more = load("synthetic", {"clients": 30, "lam": 1.0, "mu": 1.0})
    assert torch.equal(more.x[: len(data.x)], data.x)  # a client does not depend on how many there are


def test_mixed_skew_keeps_the_asked_number_of_classes() -> None:
    plain, mixed = (Synthetic(lam=1.0, mu=1.0, clients=30, keep_classes=keep) for keep in (None, 2))
    smaller = 0
    for k in range(30):
        (x, y), (x_mixed, y_mixed) = plain.client(k), mixed.client(k)
        assert len(np.unique(y_mixed)) == min(2, len(np.unique(y)))
        held = {(*row, label) for row, label in zip(x.tolist(), y, strict=True) for row in [tuple(row)]}
        assert all((*row, label) in held for row, label in zip(x_mixed.tolist(), y_mixed, strict=True))
        smaller += len(y_mixed) < np.isin(y, np.unique(y_mixed)).sum()
    assert smaller >= 15  # a client of one class, or with a lone sample, has nothing to thin


def test_split_keeps_lone_samples_for_training() -> None:
    y = np.array([0, 0, 0, 0, 0, 1, 2, 2, 0, 1])
    owner = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    train, test = stratified(y, 0, groups=owner)
    assert sorted([*train, *test]) == list(range(10))
    assert {5, 8, 9} <= set(train)
    assert sorted(y[test]) == [0, 2]
    assert [len(part) for part in stratified(np.array([], np.int64), 0)] == [0, 0]
