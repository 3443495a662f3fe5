"""Rankings of methods over rows: who is compared, who is best, what is printed."""

import math
from pathlib import Path

import pytest

from fedskew.errors import ConfigError
from fedskew.reproduce import contest, load
from fedskew.reproduce.recipe import Recipe, Scale
from fedskew.reproduce.results import Entry

TEXT = """
paper = "ours"
where = "a contest"
title = "digits"
seeds = [0, 1]
settings = { data.name = "digits", model.name = "mlp" }

[scores.accuracy]
label = "global accuracy"
metric = "global.accuracy"

[[columns]]
name = "fedavg"
label = "FedAvg"
settings.method.preset = "fedavg"

[[columns]]
name = "scaffold"
settings.method.preset = "scaffold"

[[columns]]
name = "fedlc+scaffold"
ours = true
settings.method.preset = "fedlc+scaffold"

[[rows]]
name = "easy"
label = "easy skew"
settings.split = { scheme = "iid", clients = 5 }

[[rows]]
name = "hard"
settings.split = { scheme = "labels", clients = 5, per_client = 2 }

[[contests]]
title = "Both skews"
score = "accuracy"
"""


def recipe(tmp_path: Path, text: str = TEXT) -> Recipe:
    path = tmp_path / "contest.toml"
    path.write_text(text, encoding="utf-8")
    return load.load(str(path))


def runs(method: str, easy: list[float], hard: list[float], scale: Scale = "full") -> list[Entry]:
    found = {"easy": easy, "hard": hard}
    return [
        Entry(f"{row}.{method}", scale, seed, "done", 3, "", "", 1.0, {"global.accuracy.mean10": value})
        for row, values in found.items()
        for seed, value in enumerate(values)
    ]


def test_the_mean_over_rows_and_seeds_counts(tmp_path: Path) -> None:
    one = recipe(tmp_path)
    found = runs("fedavg", [0.9, 0.8], [0.2, 0.3]) + runs("scaffold", [0.8, 0.8], [0.4, 0.6])
    found += runs("fedlc+scaffold", [0.7, 0.7], [0.6, 0.7])
    (ranking,) = contest.rankings(one, found)
    assert [line.column.name for line in ranking.standings] == ["fedlc+scaffold", "scaffold", "fedavg"]
    assert [line.mean for line in ranking.standings] == pytest.approx([67.5, 65.0, 55.0])
    assert contest.sentence(one, ranking) == (
        "Both skews: 3 methods were tried (seeds 0, 1), 1 of them ours. "
        "Best of ours: fedlc+scaffold, 67.5. Best published: scaffold, 65.0."
    )
    assert list(contest.table(one, ranking))[::3] == [
        ["method", "", "easy skew", "hard", "mean"],
        ["FedAvg", "published", "85.0", "25.0", "55.0"],
    ]


def test_only_who_ran_on_every_seed_and_row_is_ranked(tmp_path: Path) -> None:
    one = recipe(tmp_path)
    complete, partly = runs("fedavg", [0.9, 0.8], [0.2, 0.3]), runs("scaffold", [0.9, 0.9], [0.9])
    (ranking,) = contest.rankings(one, complete + partly)
    assert [line.column.name for line in ranking.standings] == ["fedavg"]
    assert ranking.best(ours=True) is None
    assert "Best of ours" not in contest.sentence(one, ranking)
    assert contest.rankings(one, partly) == []


def test_full_and_quick_runs_are_not_ranked_together(tmp_path: Path) -> None:
    one = recipe(tmp_path)
    full = runs("fedavg", [0.9, 0.9], [0.9, 0.9])
    quick = runs("fedavg", [0.1, 0.1], [0.1, 0.1], "quick") + runs("scaffold", [0.2] * 2, [0.2] * 2, "quick")
    (ranking,) = contest.rankings(one, full + quick)
    assert ranking.scale == "quick"
    assert [round(line.mean) for line in ranking.standings] == [20, 10]
    assert "(seeds 0, 1, quick)" in contest.sentence(one, ranking)


def test_who_diverged_is_last(tmp_path: Path) -> None:
    one = recipe(tmp_path)
    found = runs("fedavg", [0.9, math.nan], [0.9, 0.9]) + runs("scaffold", [0.1, 0.1], [0.1, 0.1])
    (ranking,) = contest.rankings(one, found)
    assert [line.column.name for line in ranking.standings] == ["scaffold", "fedavg"]
    assert list(contest.table(one, ranking))[-1] == ["FedAvg", "published", "diverged", "90.0", "diverged"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('score = "accuracy"', 'score = "loss"', "unknown score of contest Both skews: loss"),
        ('score = "accuracy"', 'score = "accuracy"\nrows = ["soft-*"]', "contest Both skews: no row matches"),
    ],
)
def test_a_contest_of_nothing_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, TEXT.replace(old, new))
