"""Twelve hospitals with four cardiac patients each: heartbeats of MIT-BIH, natural skew, nothing made up.

Needs the records (PhysioNet, 100 MB): fedskew data get mit-bih
"""

from fedskew import Experiment, Natural, Results, Training
from fedskew.data.folder import Folder
from fedskew.data.registry import load
from fedskew.errors import DataError
from fedskew.evaluate import Timetable

PATIENTS = 4  # of a hospital


def main(rounds: int = 30, methods: tuple[str, ...] = ("fedavg", "fedlc", "grpfed")) -> Results | None:
    """The comparison; None where the records are not at hand."""
    try:
        beats = load("mit-bih", folder=Folder(download=False))
    except DataError as error:
        print(f"The heartbeats are not here: {error}")
        return None
    assert beats.owners is not None
    hospitals = Experiment(
        data=beats._replace(owners=beats.owners // PATIENTS),
        split=Natural(minimum=100),
        model="mlp",
        rounds=rounds,
        training=Training(epochs=1, batch=64),
        timetable=Timetable(every=5, personal=10, tail=1),
    )
    found = Results(())
    for method in methods:
        found += hospitals.using(method).fit()
    return found


if __name__ == "__main__":
    results = main()
    if results is not None:
        print(results)
