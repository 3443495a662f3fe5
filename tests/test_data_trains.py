"""Every real dataset at hand trains: one short run each, from its files to a measured accuracy."""

import os

import pytest

from fedskew import Experiment, Labels, Training
from fedskew.data.partition import Natural
from fedskew.errors import DataError
from fedskew.evaluate import Timetable

pytestmark = pytest.mark.slow
FOLDER = os.environ.get("FEDSKEW_DATA")

RUNS = {
    # name: (options, network, split, participation, accuracy to beat after two rounds; chance is 1 / classes)
    "digits": ({}, "mlp", Labels(clients=10, per_client=5), 1.0, 0.15),
    "synthetic": ({"clients": 30}, "logistic", Natural(), 0.1, 0.15),
    "mnist": ({}, "fedabc-mlp", Labels(clients=100, per_client=5), 0.1, 0.3),
    "fashion-mnist": ({}, "map-lenet", Labels(clients=100, per_client=5), 0.1, 0.11),
    "cifar10": ({"batches": (1,)}, "map-tfcnn", Labels(clients=100, per_client=5), 0.1, 0.101),
    "kws": ({}, "fedova-kws", Labels(clients=100, per_client=5), 0.1, 0.11),
    "csv": (
        {"path": "tabular/letter.csv.gz", "label": "lettr"},
        "mlp",
        Labels(clients=100, per_client=13),
        *(0.1, 0.05),
    ),
    "mit-bih": ({}, "ecg-resnet", Natural(), 0.1, 0.2),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_short_run_beats_chance(name: str) -> None:
    options, network, split, participation, chance = RUNS[name]
    experiment = Experiment(
        data=name,
        data_options=options,
        data_dir=FOLDER,
        model=network,
        split=split,
        rounds=2,
        participation=participation,
        training=Training(epochs=2, batch=32),
        timetable=Timetable(personal=0),
    )
    try:
        results = experiment.fit()
    except DataError as error:
        pytest.skip(f"no files of {name} here: {error}")
    assert results.runs[0].last("global.accuracy") > chance
