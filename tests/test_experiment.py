"""An experiment put together in Python: what it takes, what it refuses, and results that are added up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedskew
from fedskew import Experiment, Labels, Result, Results, runs
from fedskew.config import parse
from fedskew.errors import ConfigError


def test_what_cannot_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    tiny = {"split": {"clients": 5, "per_client": 2}, "train": {"rounds": 1, "participation": 0.4}}
    for more, holds in (
        (
            {"model": {"name": "resnet20"}, "engine": {"name": "vectorised"}, "data": {"name": "digits"}},
            "padded",
        ),
        ({"gate": {"enabled": True, "minimum": 4}}, "no more than 2 clients"),
    ):
        with pytest.raises(ConfigError, match=holds):
            runs.begin(parse({**tiny, **more}, "test"), 0, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "holds"),
    [
        ({"training": {"epochs": 1}}, "should be a Training, e.g. Training"),
        ({"solver": 0.1}, "should be a SGD, e.g. SGD"),
        ({"timetable": 5}, "should be a Timetable"),
        ({"data": (np.zeros((4, 2)), [0, 1, 0, 1]), "data_options": {"seed": 1}}, "for a dataset's name"),
    ],
)
def test_wrong_settings_are_refused_at_construction(wrong: dict[str, Any], holds: str) -> None:
    with pytest.raises(ConfigError, match=holds):
        Experiment(**wrong)


def test_clients_of_a_given_partition_can_be_novel() -> None:
    plan = Experiment(split=Labels(clients=10, per_client=2))
    given = plan.partition(plan.dataset(), 0)
    again = replace(plan, split=given, novel=0.3)
    assert len(again.partition(again.dataset(), 0).novel) == 3
    named = replace(again, split=given._replace(novel=(4,)))
    assert named.partition(named.dataset(), 0).novel == (4,), "those of the partition count"


def test_results_that_would_count_twice_are_refused() -> None:
    one, other = (Results((Result("", "method", 0, ({"global.accuracy": v},)),)) for v in (0.2, 0.8))
    with pytest.raises(ConfigError, match=r"both hold 'method' with seed 0.*name="):
        one + other
    later = Results((Result("", "method", 1, ({"global.accuracy": 0.8},)),))
    assert [run.seed for run in (one + later).runs] == [0, 1]


def test_the_package_shows_what_it_offers() -> None:
    assert set(fedskew.__all__) <= set(dir(fedskew))
