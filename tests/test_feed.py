"""Augmentation on the way to the clients: keyed by seed, round and client, the same on every engine."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fedskew import Experiment, Labels, Training
from fedskew.data.dataset import Dataset
from fedskew.engines.choose import Choice
from fedskew.errors import ConfigError


def images(seed: int = 0) -> Dataset:
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(240, 3, 32, 32, generator=draw)
    y = torch.arange(240) % 4
    return Dataset("random", x, y, np.arange(200), np.arange(200, 240), ("a", "b", "c", "d"))


def experiment(engine: str, augment: bool) -> Experiment:
    return Experiment(
        data=images(),
        split=Labels(clients=4, per_client=2),
        model="logistic",
        rounds=2,
        training=Training(epochs=1, batch=16, augment=augment),
        engine=Choice(name=engine, backend="autograd"),  # not the fastest of the moment: bits are compared
        dtype=torch.float64,
    )


def trained(engine: str, augment: bool) -> Tensor:
    with experiment(engine, augment).session(0) as session:
        *_, last = session.rounds()
    return torch.cat([value.flatten() for value in last.round.server["shared"].values()])


def test_engines_agree_on_augmented_batches() -> None:
    serial = trained("serial", augment=True)
    assert torch.allclose(serial, trained("vectorised", augment=True), atol=1e-10)
    assert torch.equal(serial, trained("serial", augment=True))
    assert not torch.allclose(serial, trained("serial", augment=False))


def test_draws_differ_by_round_and_client_and_keep_labels() -> None:
    with experiment("serial", augment=True).session(0) as session:
        first, again, later, other = (session.feed.client(r, k) for r, k in ((0, 0), (0, 0), (1, 0), (0, 1)))
    plan = first.plans[0]
    assert torch.equal(first.batch(plan, 0).x, again.batch(again.plans[0], 0).x)
    assert not torch.equal(plan.draws[0].offsets, later.plans[0].draws[0].offsets)
    assert not torch.equal(plan.draws[0].offsets, other.plans[0].draws[0].offsets)
    assert torch.equal(first.batch(plan, 0).y, first.y[plan.steps[0]])


def test_tables_cannot_be_cropped() -> None:
    table = (np.zeros((100, 5)), np.arange(100) % 2)
    experiment = Experiment(
        data=table, training=Training(augment=True), split=Labels(clients=4, per_client=1)
    )
    with pytest.raises(ConfigError, match=r"train\.augment"):
        experiment.session(0)
