"""Recipes at work: reducing, judging, keeping, running what is missing, drawing, and the page of the outcome."""

import json
import math
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedskew.cli import main
from fedskew.engines.crew import Crew
from fedskew.errors import ConfigError, DataError
from fedskew.reproduce import (
    code,
    collect,
    compare,
    cost,
    curves,
    details,
    document,
    downloads,
    keep,
    load,
    meetings,
    perform,
    results,
    sights,
    tables,
)
from fedskew.reproduce.cells import cells, folder, select
from fedskew.reproduce.chart import Chart, Panel, Series, _axes, pdf, plotly
from fedskew.reproduce.collect import outcome
from fedskew.reproduce.curves import Point
from fedskew.reproduce.judge import Judgement, judge
from fedskew.reproduce.pictures import Material, chart, charts
from fedskew.reproduce.recipe import Recipe, Scale
from fedskew.reproduce.reduce import reducer
from fedskew.reproduce.results import Entry
from fedskew.reproduce.work import Job, jobs
from fedskew.store.reader import RunReader

ROOT = Path(__file__).parents[1]
Call = Callable[..., tuple[int, str]]


def place_of(cell: str, seed: int = 0, scale: Scale = "full", out: Path = Path("runs")) -> Path:
    """Where a run of the recipe in this folder is kept."""
    (found,) = select(cells(load.load("tiny.toml"), scale), [cell])
    return folder(found, seed, out)


TINY = """
paper = "Nobody"
where = "Table 0"
title = "digits"
seeds = [0, 1]
curves = ["global.accuracy"]
details = ["census", "clients"]

[settings]
data.name = "digits"
model.name = "mlp"
split = { scheme = "labels", clients = 5 }
train = { rounds = 3, participation = 0.6, epochs = 1, batch = 32, lr = 0.05 }
evaluate = { every = 1, personal = 3 }

[quick]
train.rounds = 1

[scores.accuracy]
label = "global accuracy"
metric = "global.accuracy"
reduce = "last"

[scores.start]
label = "first round"
metric = "global.accuracy"
reduce = "first"

[[columns]]
name = "fedavg"
settings.method.preset = "fedavg"

[[columns]]
name = "fedlc"
label = "FedLC"
settings.method.preset = "fedlc"

[[rows]]
name = "two"
x = 2
settings.split.per_client = 2
published.accuracy = { fedavg = "50.0±1.0", fedlc = 60.0 }

[[rows]]
name = "four"
x = 4
settings.split.per_client = 4
published.accuracy = { fedavg = 70.0, fedlc = "90.0?" }

[[claims]]
id = "X-1"
text = "FedLC is better."
score = "accuracy"
compare = [{ more = ["fedlc"], less = ["fedavg"] }]

[[pictures]]
kind = "curves"
title = "curves"
options = { metric = "global.accuracy", axis = "accuracy" }

[[pictures]]
kind = "bars"
title = "bars"
options = { score = "accuracy" }

[[pictures]]
kind = "lines"
title = "lines"
options = { score = "accuracy" }

[[pictures]]
kind = "bubbles"
title = "bubbles"

[[pictures]]
kind = "classes"
title = "classes"
options = { model = "trained" }
"""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Runs a command in an empty folder with a cache of its own, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("tiny.toml").write_text(TINY, encoding="utf-8")

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["fedskew", *words])
        try:
            main()
            exit_code = 0
        except SystemExit as stop:
            exit_code = int(stop.code or 0)
        return exit_code, "".join(capfd.readouterr())

    return run


def tiny(tmp_path: Path, text: str = TINY) -> Recipe:
    path = tmp_path / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return load.load(str(path))


# Numbers of a run


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("last", [0.1, 0.2, 0.4], 0.4),
        ("first", [0.1, 0.2, 0.4], 0.1),
        ("mean10", [9.0, *[1.0] * 9, 2.0], 1.1),
        ("mean20", [float(i) for i in range(40)], 29.5),
        ("mean10", [math.nan, 1.0, 3.0], 2.0),
        ("sixth", [*[0.5] * 2, *[0.9] * 10], 0.5),
        ("roughness", [0.0, 9.0, 1.0, 2.0, 1.0, 4.0], 2.0),  # of 2, 1, 4: steps 1 and 3
        ("late_change", [*[5.0] * 6, 3.0, 3.0, 4.0, 6.0], 2.0),
        ("rounds_to_50", [0.1, 0.49, 0.5, 0.4], 3.0),
        ("rounds_to_50", [0.1, 0.2], 3.0),
    ],
)
def test_reducers(name: str, values: list[float], wanted: float) -> None:
    assert reducer(name)(values) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "name", ["last", "first", "mean10", "sixth", "roughness", "late_change", "rounds_to_50"]
)
def test_a_run_without_values_has_no_number(name: str) -> None:
    assert math.isnan(reducer(name)([]))


def test_a_round_by_its_number() -> None:
    records = [{"round": number, "global.accuracy": number / 10} for number in (1, 2, 5)]
    for name, wanted in (("third", 0.2), ("accuracy", 0.5)):
        key = load.load("fedlc-fashion").scores[name].key
        assert collect._values(load.load("fedlc-fashion"), records)[key] == wanted
    assert math.isnan(collect._at(records, 4, "global.accuracy"))


def test_a_round_of_a_run_that_is_gone_comes_from_its_curve() -> None:
    recipe, folder = load.load("fedlc-fashion"), ROOT / "results"
    kept, key = results.read(recipe.name, folder), recipe.scores["third"].key
    bare = [entry._replace(values={**entry.values, key: math.nan}) for entry in kept]
    assert repr(curves.completed(recipe, bare, curves.read(recipe.name, folder))) == repr(kept)
    assert repr(curves.completed(recipe, bare, [])) == repr(bare)


def test_unknown_reducer() -> None:
    with pytest.raises(ConfigError, match="mean10"):
        reducer("mean_10")


# Where the global model errs


def test_errors_between_classes_that_meet_in_few_clients_and_in_many() -> None:
    counts = [[5, 5, 0], [1, 9, 0], [0, 4, 4]]  # 0 and 1 meet twice, 1 and 2 once, 0 and 2 never
    confusion = [[10, 1, 2], [3, 10, 4], [5, 6, 9]]
    blank, found = meetings.add([{"round": 0}, {"round": 1, "global.confusion": confusion}], counts)
    assert blank == {"round": 0}
    assert found[meetings.OFTEN] == pytest.approx((1 + 3) / 50)
    assert found[meetings.RARE] == pytest.approx((2 + 4 + 5 + 6) / 50)


def test_a_recipe_can_ask_where_the_model_errs(call: Call) -> None:
    score = '[scores.start]\nlabel = "rare"\nmetric = "errors.rare"\nreduce = "last"'
    text = re.sub(r"\[scores\.start\](\n.+)+", score, TINY)
    Path("tiny.toml").write_text(text, encoding="utf-8")
    call("reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0", "--workers", "1")
    (kept,) = results.read("tiny", Path("results"))
    reader = RunReader(place_of("two.fedavg"))
    held = [{c for c, n in enumerate(row) if n} for row in json.loads(reader.file("census.json"))["train"]]
    taken = reader.metrics()[-1]["global.confusion"]
    pairs = [(a, b) for a in range(10) for b in range(10) if a != b]
    met = {pair: sum(set(pair) <= classes for classes in held) for pair in pairs}
    rare = [pair for pair in pairs if met[pair] <= statistics.median(met.values())]
    share = sum(taken[a][b] for a, b in rare) / sum(map(sum, taken))
    assert kept.values["errors.rare.last"] == pytest.approx(share, abs=1e-4)
    assert 0 < share < 1 - kept.values["global.accuracy.last"] + 1e-4


# Claims


def entries(
    values: dict[str, list[float]], scale: str = "full", key: str = "global.accuracy.last"
) -> list[Entry]:
    return [
        Entry(cell, scale, seed, "done", 3, "", "", 1.0, {key: value})  # type: ignore[arg-type]
        for cell, row in values.items()
        for seed, value in enumerate(row)
    ]


def judged(tmp_path: Path, compare: str, found: list[Entry]) -> Judgement:
    text = TINY.replace('compare = [{ more = ["fedlc"], less = ["fedavg"] }]', f"compare = [{compare}]")
    return judge(tiny(tmp_path, text), found)[0]


PAIR = 'rows = ["two"], more = ["fedlc"], less = ["fedavg"]'


@pytest.mark.parametrize(
    ("lc", "avg", "verdict"),
    [
        # The published gain is 10 points.
        ([0.60, 0.61, 0.62], [0.50, 0.51, 0.52], "confirmed"),
        ([0.552, 0.55, 0.551], [0.50, 0.50, 0.50], "confirmed"),  # half of it is enough
        ([0.54, 0.54, 0.541], [0.50, 0.50, 0.50], "refuted"),  # surely less than half
        ([0.49, 0.48, 0.30], [0.50, 0.50, 0.50], "refuted"),  # the opposite sign in every seed
        ([0.70, 0.49, 0.60], [0.50, 0.50, 0.50], "undecided"),
    ],
)
def test_a_gain(tmp_path: Path, lc: list[float], avg: list[float], verdict: str) -> None:
    found = judged(tmp_path, f"{{ {PAIR} }}", entries({"two.fedlc": lc, "two.fedavg": avg}))
    assert found.contrasts[0].claimed == pytest.approx(10.0)
    assert found.verdict == verdict


def test_differences_are_paired_by_seed(tmp_path: Path) -> None:
    found = entries({"two.fedlc": [0.6, 0.7], "two.fedavg": [0.5, 0.4, 0.3]})
    contrast = judged(tmp_path, f"{{ {PAIR} }}", found).contrasts[0]
    assert contrast.seeds == (0, 1)
    assert contrast.differences == pytest.approx((10.0, 30.0))


@pytest.mark.parametrize(("lower", "verdict"), [(0.1, "confirmed"), (0.3, "refuted")])
def test_not_worse_than(tmp_path: Path, lower: float, verdict: str) -> None:
    found = entries({"two.fedlc": [0.5 - lower / 100] * 3, "two.fedavg": [0.5] * 3})
    assert judged(tmp_path, f"{{ {PAIR}, slack = 0.2 }}", found).verdict == verdict


@pytest.mark.parametrize(
    ("gap", "verdict"), [(0.1, "confirmed"), (-0.1, "confirmed"), (0.3, "refuted"), (-0.3, "refuted")]
)
def test_about_equal(tmp_path: Path, gap: float, verdict: str) -> None:
    found = entries({"two.fedlc": [0.5 + gap / 100] * 3, "two.fedavg": [0.5] * 3})
    assert judged(tmp_path, f"{{ {PAIR}, within = 0.2 }}", found).verdict == verdict


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([0.6, -0.6, 0.6, -0.6], "undecided"),  # beyond the limit, but on both sides
        ([0.6, 0.1, 0.2], "undecided"),
        ([0.5, -0.5, 0.0], "confirmed"),
        ([-0.6, -0.7, -9.0], "refuted"),  # all on one side
        ([0.9, 0.8, 0.85, 0.4], "undecided"),
        ([0.95, 0.9, 0.93, 0.92, 0.94, 0.91, 0.9, 0.49], "refuted"),  # by the interval
    ],
)
def test_a_tie_is_judged_on_either_side(tmp_path: Path, gaps: list[float], verdict: str) -> None:
    found = entries({"two.fedlc": [0.5 + gap / 100 for gap in gaps], "two.fedavg": [0.5] * len(gaps)})
    assert judged(tmp_path, f"{{ {PAIR}, within = 0.50001 }}", found).verdict == verdict


def test_not_lower_by_more_is_not_lower_by_as_much(tmp_path: Path) -> None:
    found = entries({"two.fedlc": [0.498] * 3, "two.fedavg": [0.5] * 3})
    assert judged(tmp_path, f"{{ {PAIR}, slack = 0.2 }}", found).verdict == "confirmed"


def test_of_an_order_the_size_over_the_closest_counts(tmp_path: Path) -> None:
    """Printed are 60 over 50 and over 20: ours is 6 points above the one, far enough, and 6 above the other."""
    column = '[[columns]]\nname = "local"\nsettings.method.preset = "local"\n\n[[rows]]'
    text = TINY.replace("[[rows]]", column, 1).replace("fedlc = 60.0 }", "fedlc = 60.0, local = 20.0 }")
    order = 'compare = [{ rows = ["two"], more = ["fedlc"], less = ["fedavg", "local"] }]'
    text = text.replace('compare = [{ more = ["fedlc"], less = ["fedavg"] }]', order)
    found = entries({"two.fedlc": [0.6] * 3, "two.fedavg": [0.54] * 3, "two.local": [0.54] * 3})
    one = judge(tiny(tmp_path, text), found)[0]
    assert [contrast.claimed for contrast in one.contrasts] == [pytest.approx(10.0), None]
    assert one.verdict == "confirmed"


def test_a_printed_tie_has_no_size(tmp_path: Path) -> None:
    text = TINY.replace("fedlc = 60.0 }", "fedlc = 50.0 }")
    found = entries({"two.fedlc": [0.5] * 3, "two.fedavg": [0.5] * 3})
    (one, *_) = judge(tiny(tmp_path, text), found)[0].contrasts
    assert one.claimed is None
    assert one.verdict == "undecided"


def test_what_the_participants_had_before_the_round() -> None:
    records = [{"round": n, "participants": who} for n, who in enumerate(([0, 1], [1, 2], [0, 2]))]
    line = {"clients": [0, 1, 2], "trained.accuracy": [0.2, 0.4, None], "trained.drift": [0.9] * 3}
    found = downloads.add(
        records, [{"round": 0, **line}, {"round": 1, **line, "trained.accuracy": [0.6, 1, 0.8]}]
    )
    assert [record.get(downloads.KEPT) for record in found] == [None, pytest.approx(0.4), pytest.approx(0.7)]


def test_a_difference_held_against_another_row(tmp_path: Path) -> None:
    """(60 - 50) - (71 - 70) = 9 points; published (60 - 50) - nothing, since 90 is doubtful: the sign only."""
    found = entries({"two.fedlc": [0.6], "two.fedavg": [0.5], "four.fedlc": [0.71], "four.fedavg": [0.7]})
    contrast = judged(tmp_path, f'{{ {PAIR}, against = "four" }}', found).contrasts[0]
    assert contrast.claimed is None
    assert contrast.differences == pytest.approx((9.0,))


def test_a_row_against_another(tmp_path: Path) -> None:
    one = '{ rows = ["four"], more = ["fedavg"], against = "two" }'
    contrast = judged(tmp_path, one, entries({"four.fedavg": [0.7], "two.fedavg": [0.4]})).contrasts[0]
    assert contrast.claimed == pytest.approx(20.0)
    assert contrast.differences == pytest.approx((30.0,))


@pytest.mark.parametrize(
    ("side", "verdict", "signs"), [("above", "confirmed", "+++"), ("below", "refuted", "---")]
)
def test_a_number(tmp_path: Path, side: str, verdict: str, signs: str) -> None:
    one = f'{{ rows = ["two"], more = ["fedlc"], {side} = 40.0, gain = 1.0 }}'
    found = judged(tmp_path, one, entries({"two.fedlc": [0.5, 0.6, 0.7]}))
    assert found.verdict == verdict
    assert compare.claimed(found.contrasts[0]) == f"{side} 40"
    assert compare.words(found.contrasts[0]) == f"60.0 [35.2, 84.8] by seed {signs}"


def test_a_number_is_not_held_against_the_published_one(tmp_path: Path) -> None:
    """50.0 is printed, five points above the bound; a tenth of a point above it is enough."""
    compare = '{ rows = ["two"], more = ["fedavg"], above = 45.0 }'
    one = judged(tmp_path, compare, entries({"two.fedavg": [0.451, 0.452, 0.453]}))
    assert one.verdict == "confirmed"


def test_another_score_on_the_other_side(tmp_path: Path) -> None:
    one = '{ rows = ["two"], more = ["fedlc"], less = ["fedlc"], less_score = "start" }'
    both = {"global.accuracy.last": 0.6, "global.accuracy.first": 0.2}
    found = [Entry("two.fedlc", "full", 0, "done", 3, "", "", 1.0, both)]
    assert judged(tmp_path, one, found).contrasts[0].differences == pytest.approx((40.0,))


def test_full_runs_count_before_quick_ones(tmp_path: Path) -> None:
    quick = entries({"two.fedlc": [0.9, 0.9, 0.9], "two.fedavg": [0.1, 0.1, 0.1]}, "quick")
    assert judged(tmp_path, f"{{ {PAIR} }}", quick).marks == ["quick", "far from the published scores"]
    both = [*quick, *entries({"two.fedlc": [0.6], "two.fedavg": [0.5]})]
    found = judged(tmp_path, f"{{ {PAIR} }}", both)
    assert found.contrasts[0].differences == pytest.approx((10.0,))
    assert found.marks == ["only 1 seed"]


def test_a_claim_of_many_comparisons(tmp_path: Path) -> None:
    one = '{ more = ["fedlc"], less = ["fedavg"], gain = 10.0 }'
    assert judged(tmp_path, one, []).verdict == "not tested"
    good = {"two.fedlc": [0.6] * 3, "two.fedavg": [0.5] * 3}
    found = judged(tmp_path, one, entries(good))
    assert (found.verdict, found.marks) == ("confirmed", ["1 of 2 comparisons tested"])
    assert (found.is_final, found.words) == (False, "confirmed so far")
    bad = {**good, "four.fedlc": [0.4] * 3, "four.fedavg": [0.5] * 3}
    found = judged(tmp_path, one, entries(bad))
    assert (found.verdict, found.marks[:2]) == ("refuted", ["1 confirmed", "1 refuted"])
    assert (found.is_final, found.words) == (True, "refuted")


def test_two_seeds_are_not_the_end(tmp_path: Path) -> None:
    found = judged(tmp_path, f"{{ {PAIR} }}", entries({"two.fedlc": [0.6] * 2, "two.fedavg": [0.5] * 2}))
    assert (found.words, found.marks) == ("confirmed so far", ["only 2 seeds"])


def test_a_sign_that_nobody_has_is_undecided(tmp_path: Path) -> None:
    """As where neither method reaches the accuracy whose rounds are counted."""
    same = entries({"four.fedlc": [0.5] * 3, "four.fedavg": [0.5] * 3})
    one = (
        '{ rows = ["four"], more = ["fedlc"], less = ["fedavg"] }'  # a published number is doubtful: no size
    )
    assert judged(tmp_path, one, same).verdict == "undecided"


def test_a_comparison_names_a_score_that_is_not_the_claims(tmp_path: Path) -> None:
    found = judged(tmp_path, f'{{ {PAIR}, score = "start" }}', [])
    assert found.contrasts[0].label == "two: FedLC over fedavg (first round)"


def test_a_comparison_of_two_scores_names_both(tmp_path: Path) -> None:
    found = judged(tmp_path, f'{{ {PAIR}, less_score = "start" }}', [])
    assert found.contrasts[0].label == "two: FedLC (global accuracy) over fedavg (first round)"


def test_a_verdict_is_final_with_all_seeds_of_the_recipe(tmp_path: Path) -> None:
    text = TINY.replace("seeds = [0, 1]", "seeds = [0, 1, 2, 3, 4]")
    text = text.replace('compare = [{ more = ["fedlc"], less = ["fedavg"] }]', f"compare = [{{ {PAIR} }}]")
    three, five = ({"two.fedlc": [0.6] * n, "two.fedavg": [0.5] * n} for n in (3, 5))
    (found,) = judge(tiny(tmp_path, text), entries(three))
    assert (found.is_final, found.marks) == (False, ["only 3 seeds"])
    (found,) = judge(tiny(tmp_path, text), entries(five))
    assert (found.is_final, found.marks) == (True, [])


def test_a_score_that_a_run_does_not_have_is_not_compared(tmp_path: Path) -> None:
    runs = entries({"two.fedlc": [math.nan], "two.fedavg": [0.5]})
    assert judged(tmp_path, f"{{ {PAIR} }}", runs).verdict == "not tested"
    lost = [entry._replace(status="diverged") if entry.cell == "two.fedlc" else entry for entry in runs]
    assert judged(tmp_path, f"{{ {PAIR} }}", lost).verdict == "undecided"


def test_seeds_are_counted_from_the_fewest_to_the_most(tmp_path: Path) -> None:
    once, twice = (
        {f"{row}.{one}": [0.5] * n for one in ("fedlc", "fedavg")} for row, n in (("two", 1), ("four", 2))
    )
    runs = entries(once | twice)
    assert "only 1 to 2 seeds" in judged(tmp_path, '{ more = ["fedlc"], less = ["fedavg"] }', runs).marks


def test_what_full_runs_lack_is_a_mark(tmp_path: Path) -> None:
    text = TINY.replace('title = "digits"', 'title = "digits"\nlacks = "3 of 400 rounds"')
    text = text.replace('text = "FedLC is better."', 'text = "FedLC is better."\nother = true')
    (none,) = judge(tiny(tmp_path, text), [])
    assert (none.marks, none.is_short) == (["other data than the paper's"], False)
    (some,) = judge(tiny(tmp_path, text), entries({"two.fedlc": [0.6] * 3, "two.fedavg": [0.5] * 3}))
    assert (some.marks[-2:], some.is_short) == (["3 of 400 rounds", "other data than the paper's"], True)


@pytest.mark.parametrize(("ours", "far"), [(54.9, False), (55.1, True), (44.9, True)])
def test_scores_far_from_the_published_are_a_mark(tmp_path: Path, ours: float, far: bool) -> None:
    runs = entries({"two.fedlc": [0.6] * 3, "two.fedavg": [ours / 100] * 3})
    found = judged(tmp_path, '{ rows = ["two"], more = ["fedlc"], less = ["fedavg"] }', runs)
    assert ("far from the published scores" in found.marks) is far


def test_a_claim_may_lack_what_its_recipe_does_not(tmp_path: Path) -> None:
    text = TINY.replace('text = "FedLC is better."', 'text = "FedLC is better."\nlacks = "3 of 400 rounds"')
    (some,) = judge(tiny(tmp_path, text), entries({"two.fedlc": [0.6] * 3, "two.fedavg": [0.5] * 3}))
    assert some.marks[-1] == "3 of 400 rounds"


def test_verdicts_of_quick_runs_are_marked(tmp_path: Path) -> None:
    claim = '{ more = ["fedlc"], less = ["fedavg"] }'
    runs = {"two.fedlc": [0.6], "two.fedavg": [0.5]}
    full, quick = (judged(tmp_path, claim, entries(runs, scale)) for scale in ("full", "quick"))
    assert (full.is_short, quick.is_short) == (False, True)
    said = [compare.words(one.tested[0]) for one in (full, quick)]
    assert said[1] == f"{said[0]} (quick)"


# Tables


def test_lines_of_a_table(tmp_path: Path) -> None:
    found = entries({"two.fedavg": [0.4, 0.5, 0.6], "four.fedavg": [0.64], "four.fedlc": [0.5]})
    found += entries({"two.fedavg": [0.1]}, "quick")
    lines = compare.lines(tiny(tmp_path), found, "accuracy")
    said = [(x.row.name, x.column.name, x.printed, x.found, x.difference, x.seeds) for x in lines]
    assert said == [
        ("two", "fedavg", "50.0 ± 1.0", "50.0 ± 10.0", "+0.0", "3"),
        ("two", "fedlc", "60.0", "-", "-", "-"),
        ("four", "fedavg", "70.0", "64.0", "-6.0 !", "1*"),
        ("four", "fedlc", "90.0?", "50.0", "-", "1*"),
    ]


def test_a_diverged_run_is_no_number(tmp_path: Path) -> None:
    lost = Entry("two.fedavg", "full", 1, "diverged", 2, "", "", 1.0, {})
    line = compare.lines(tiny(tmp_path), [*entries({"two.fedavg": [0.4]}), lost], "accuracy")[0]
    assert (line.found, line.difference) == ("diverged (1 of 2)", "-")


def test_a_score_that_a_method_does_not_have_is_left_out(tmp_path: Path) -> None:
    line = compare.lines(tiny(tmp_path), entries({"two.fedavg": [math.nan]}), "accuracy")[0]
    assert (line.found, line.seeds) == ("-", "-")


# Files of results


def test_results_come_back(tmp_path: Path) -> None:
    recipe = tiny(tmp_path)
    values = {"global.accuracy.last": 0.123456, "global.accuracy.first": math.nan}
    kept = [Entry("two.fedavg", "quick", 3, "done", 1, "abc", "0.1+x", 12.5, values)]
    results.write(recipe, tmp_path, kept)
    back = results.read("tiny", tmp_path)[0]
    assert back[:-1] == kept[0][:-1]
    assert back.values["global.accuracy.last"] == 0.123456
    assert math.isnan(back.values["global.accuracy.first"]), "it was asked for, and there was none"
    assert "global.accuracy.mean20" not in back.values, "it was not asked for"


def test_a_strange_file_of_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"tiny\.csv"):
        results.read("tiny", tmp_path)


def test_results_of_other_settings_stay_until_the_cell_is_run_again() -> None:
    old = [Entry("two.fedavg", "full", 0, "done", 3, "then", "", 1.0, {})]
    new = [Entry("two.fedavg", "full", 1, "done", 3, "now", "", 1.0, {})]
    assert results.joined(old, new, [("two.fedavg", "now")]) == new + old
    again = [new[0]._replace(seed=0)]
    assert results.joined(old, again, [("two.fedavg", "now")]) == again


def test_showing_takes_nothing_away(call: Call) -> None:
    only = ("reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0", "--workers", "1")
    call(*only)
    shutil.rmtree("runs")
    before = Path("results/tiny.csv").read_bytes()
    Path("tiny.toml").write_text(TINY.replace("lr = 0.05", "lr = 0.01"), encoding="utf-8")
    assert "Nothing of it is in" in call(*only, "--show")[1], "the result is of other settings"
    assert Path("results/tiny.csv").read_bytes() == before
    Path("tiny.toml").write_text(TINY, encoding="utf-8")
    assert "0 runs are missing" in call(*only, "--plan")[1]


def test_what_is_asked_for_later_is_missing(call: Call) -> None:
    only = ("reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0", "--workers", "1")
    call(*only)
    more = TINY.replace('metric = "global.accuracy"\nreduce = "first"', 'metric = "global.macro_f1"')
    Path("tiny.toml").write_text(more, encoding="utf-8")
    assert "0 runs are missing" in call(*only, "--plan")[1], "the run is here and has it"
    shutil.rmtree("runs")
    (kept,) = results.read("tiny", Path("results"))
    assert not results.is_whole(load.load("tiny.toml"), kept)
    page = "\n".join(document._recipe(load.load("tiny.toml"), [kept], []))
    assert "Not known of 1 run: what this page asks for since." in page
    assert "1 run is missing" in call(*only, "--plan")[1]
    call(*only)
    (made,) = results.read("tiny", Path("results"))
    assert made.values["global.macro_f1.mean10"] > 0


def test_a_metric_that_no_run_has_is_told(call: Call) -> None:
    Path("tiny.toml").write_text(TINY.replace('"global.accuracy"\nreduce = "first"', '"global.acuracy"'))
    only = ("reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0", "--workers", "1")
    assert "No run has measured 'global.acuracy' (first round)." in call(*only)[1]


def test_results_that_cannot_be_written_are_known_before_anything_is_run(call: Call) -> None:
    Path("results").write_text("a file", encoding="utf-8")
    exit_code, said = call(
        "reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0", "--workers", "1"
    )
    assert exit_code != 0
    assert "Choose another folder with --results." in " ".join(said.split())
    assert not Path("runs").exists()


# Code and cost


def test_the_version_of_code_ignores_words(tmp_path: Path) -> None:
    plain, spoken, other = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
    plain.write_text("def f(x):\n    return x + 1\n", encoding="utf-8")
    spoken.write_text(
        '"""Words."""\n\ndef f(x):\n    """More."""\n    return (x + 1)  # why\n', encoding="utf-8"
    )
    other.write_text("def f(x):\n    return x + 2\n", encoding="utf-8")
    assert code._meaning(plain) == code._meaning(spoken) != code._meaning(other)


def test_the_version_of_code_looks_at_files_that_exist() -> None:
    assert all(list(code._sources(room)) for room in (*code._CORE, *code._SPEED))


def test_the_version_of_code_knows_the_method(tmp_path: Path) -> None:
    by_name = {cell.name: cell for cell in cells(tiny(tmp_path))}
    assert code.version(by_name["two.fedavg"].config) == code.version(by_name["four.fedavg"].config)
    assert re.fullmatch(r"[\d.]+\+[0-9a-f]{10}", code.version(by_name["two.fedlc"].config))


def test_seconds_of_a_run(tmp_path: Path) -> None:
    """3 rounds x 3 of 5 clients of 1000 examples once, 3 evaluations of the server, and those of clients."""
    config = cells(tiny(tmp_path))[0].config
    timing = cost.Timing(example=0.01, test=0.001, train_size=1000, test_size=500, clients=5)
    training, server = 3 * 0.6 * 1000 * 0.01, 3 * 0.5
    clients = 3 * (5 * 0.6) * 0.5  # every round is one of the last ten
    assert cost.seconds(config, timing) == pytest.approx(training + server + clients)


# Running


def test_what_is_missing_is_run_and_only_that(call: Call) -> None:
    exit_code, said = call(
        "reproduce", "tiny.toml", "--cells", "two.fedavg,two.fedlc", "--seeds", "0", "--workers", "1"
    )
    assert exit_code == 0, said
    assert "2 runs are missing" in said
    assert re.search(r"X-1 \w+ .*1 of 2 comparisons tested, only 1 seed", said)
    first = results.read("tiny", Path("results"))
    assert [(e.cell, e.seed, e.status, e.rounds) for e in first] == [
        ("two.fedavg", 0, "done", 3),
        ("two.fedlc", 0, "done", 3),
    ]
    exit_code, said = call("reproduce", "tiny.toml", "--seeds", "0", "--workers", "1")
    assert "2 runs are missing" in said
    second = results.read("tiny", Path("results"))
    assert second[:2] == first
    assert len(second) == 4
    plan = ("reproduce", "tiny.toml", "--seeds", "0", "--plan")
    assert "0 runs are missing" in call(*plan)[1]
    shutil.rmtree("runs")
    assert "0 runs are missing" in call(*plan)[1], "what is in the results need not be run elsewhere"
    Path("results/tiny.csv").unlink()
    assert "4 runs are missing" in call(*plan)[1]


def test_a_deadline_stops_between_rounds_and_nothing_is_lost(call: Call) -> None:
    only = ("reproduce", "tiny.toml", "--cells", "two.fedlc", "--seeds", "1", "--workers", "1")
    exit_code, said = call(*only, "--minutes", "0.00001")
    assert exit_code == 0
    assert "time is up" in said
    place = place_of("two.fedlc", 1)
    assert outcome(place).state in ("begun", "new")
    assert not Path("results/tiny.csv").exists()
    call(*only)
    resumed = results.read("tiny", Path("results"))[0].values
    call(*only, "--out", "elsewhere", "--results", "there")
    assert results.read("tiny", Path("there"))[0].values == resumed


def test_runs_at_once(call: Call) -> None:
    exit_code, said = call(
        "reproduce", "tiny.toml", "--scale", "quick", "--cells", "two.fedavg", "--workers", "2"
    )
    assert exit_code == 0, said
    found = [(e.cell, e.seed, e.scale) for e in results.read("tiny", Path("results"))]
    assert found == [("two.fedavg", 0, "quick"), ("two.fedavg", 1, "quick")]


def test_a_single_run_has_all_workers(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    hired: list[int] = []
    hire = Crew.__init__

    def count(self: Crew, *given: Any) -> None:
        hired.append(given[-1])
        hire(self, *given)

    monkeypatch.setattr(Crew, "__init__", count)
    text = TINY.replace("evaluate =", 'engine = { backend = "autograd" }\nevaluate =')  # not the faster one
    Path("tiny.toml").write_text(text, encoding="utf-8")
    only = ("reproduce", "tiny.toml", "--cells", "two.fedlc", "--seeds", "1")
    call(*only, "--workers", "1", "--out", "one")
    assert hired == []
    call(*only, "--workers", "2", "--out", "two", "--results", "there")
    assert hired == [2]
    found = [RunReader(place_of("two.fedlc", 1, out=Path(out))).metrics() for out in ("one", "two")]
    assert found[0] == found[1], "to the last bit"


def test_a_quick_run_is_the_beginning_of_the_full_one(call: Call) -> None:
    only = ("reproduce", "tiny.toml", "--cells", "two.fedlc", "--seeds", "1", "--workers", "1")
    (job,) = jobs([c for c in cells(load.load("tiny.toml")) if c.name == "two.fedlc"], [1], Path("runs"))
    assert perform.rounds(job) == 3
    call(*only, "--scale", "quick")
    assert perform.rounds(job) == 2
    assert perform.Task(job, 5.0).seconds == 10
    call(*only)
    assert perform.rounds(job) == 3, "one at its end is made again"
    events = RunReader(place_of("two.fedlc", 1)).events()
    assert [event["round"] for event in events if event["event"] == "resumed"] == [1]
    spent = [event["seconds"] for event in events if event["event"] == "round"]
    assert outcome(place_of("two.fedlc", 1)).seconds == pytest.approx(sum(spent[1:])), (
        "the first is the quick run's"
    )
    call(*only, "--out", "elsewhere", "--results", "there")
    at_once, gone_on = results.read("tiny", Path("there")), results.read("tiny", Path("results"))
    assert at_once[0].values == gone_on[0].values
    assert [entry.scale for entry in gone_on] == ["full", "quick"]


def test_a_quick_run_of_other_code_is_no_beginning(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    only = ("reproduce", "tiny.toml", "--cells", "two.fedlc", "--seeds", "1", "--workers", "1")
    call(*only, "--scale", "quick")
    monkeypatch.setattr(code, "version", lambda config, study=False: "9.9+other")
    call(*only)
    events = RunReader(place_of("two.fedlc", 1)).events()
    assert not [event for event in events if event["event"] == "resumed"]


def test_other_code_is_noted_and_redone_on_demand(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    only = (
        "reproduce",
        "tiny.toml",
        "--cells",
        "two.fedavg",
        "--seeds",
        "0",
        "--workers",
        "1",
        "--scale",
        "quick",
    )
    call(*only)
    monkeypatch.setattr(code, "version", lambda config, study=False: "9.9+other")
    assert "0 runs are missing" in call(*only)[1]
    assert "1 run is missing" in call(*only, "--fresh")[1]
    assert results.read("tiny", Path("results"))[0].code == "9.9+other"
    assert place_of("two.fedavg", scale="quick").with_name("0.old0").is_dir()


def test_a_diverged_cell_is_a_result(call: Call) -> None:
    text = TINY.replace("lr = 0.05", "lr = 1e30")
    Path("tiny.toml").write_text(text, encoding="utf-8")
    exit_code, said = call(
        "reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0", "--workers", "1"
    )
    assert exit_code == 0, said
    assert results.read("tiny", Path("results"))[0].status == "diverged"
    assert "diverged (1 of 1)" in said
    other = ("reproduce", "tiny.toml", "--cells", "two.fedlc", "--seeds", "0", "--workers", "1")
    assert "found diverged with seed 0" in call(*other)[1]
    assert (
        "0 runs are missing"
        in call("reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0", "--plan")[1]
    )


def test_other_settings_are_another_run(call: Call) -> None:
    only = ("reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0", "--workers", "1")
    call(*only, "--figures", "figures")
    (before,) = results.read("tiny", Path("results"))
    Path("tiny.toml").write_text(TINY.replace("lr = 0.05", "lr = 0.0001"), encoding="utf-8")
    assert charts(load.load("tiny.toml"), Path("results")) == [], "what was drawn is of other settings"
    assert "1 run is missing" in call(*only)[1]
    (after,) = results.read("tiny", Path("results"))
    assert before.values["global.accuracy.last"] > after.values["global.accuracy.last"] + 0.05
    assert details.read("tiny", Path("results"))["two.fedavg"]["config"] == after.config
    shutil.rmtree("runs")
    Path("tiny.toml").write_text(TINY, encoding="utf-8")
    call(*only, "--scale", "quick")
    kept = details.read("tiny", Path("results"))["two.fedavg"]
    assert (kept["scale"], kept["config"]) == ("quick", cells(load.load("tiny.toml"), "quick")[0].digest)


def test_a_run_is_a_result_of_every_recipe_that_has_it(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("other.toml").write_text(TINY.replace("Table 0", "Table 1"), encoding="utf-8")
    digest = select(cells(load.load("tiny.toml")), ["two.fedavg"])[0].digest
    monkeypatch.setattr(keep, "sharing", lambda: {digest: {"tiny", "other.toml"}})
    call("reproduce", "tiny.toml", "--cells", "two.*", "--seeds", "0,9", "--workers", "1")
    assert {entry.seed for entry in results.read("tiny", Path("results"))} == {0, 9}
    kept = results.read("other", Path("results"))
    assert "two.fedavg" in {entry.cell for entry in kept}
    assert {entry.seed for entry in kept} == {0}, "seeds that it does not name stay fresh to it"


def test_a_recipe_of_your_own_has_its_own_name(tmp_path: Path) -> None:
    mine = tmp_path / "fedova-table-1.toml"
    mine.write_text(TINY, encoding="utf-8")
    with pytest.raises(ConfigError, match="is a recipe of the package, whose results yours would replace"):
        load.load(str(mine))


def test_cells_may_be_of_any_of_the_recipes(call: Call) -> None:
    Path("other.toml").write_text(TINY.replace('name = "two"', 'name = "ten"'), encoding="utf-8")
    words = ("reproduce", "tiny.toml", "other.toml", "--seeds", "0", "--plan", "--cells")
    exit_code, said = call(*words, "ten.fedavg,two.fedlc")
    assert exit_code == 0, said
    assert said.count("1 run is missing") == 2
    assert "no cell matches 'six.*'" in call(*words, "ten.*,six.*")[1]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: text.rindex(",")],
        lambda text: text[:-1],
        lambda text: text.replace(",full,", ",fall,"),
        lambda text: text.replace("two.fedavg", "two.fed\udcff"),
    ],
)
def test_spoilt_results_are_an_error(tmp_path: Path, spoil: Callable[[str], str]) -> None:
    results.write(tiny(tmp_path), tmp_path, entries({"two.fedavg": [0.5]}))
    path = tmp_path / "tiny.csv"
    path.write_bytes(spoil(path.read_text(encoding="utf-8")).encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=r"is not what `fedskew reproduce` writes .* Remove it"):
        results.read("tiny", tmp_path)


def test_results_are_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from fedskew.reproduce.results import alone\n"
        "with alone(pathlib.Path(sys.argv[1])): print()"
    )
    with results.alone(tmp_path / "results"):
        waiting = subprocess.Popen(
            [sys.executable, "-c", script, tmp_path / "results"], stdout=subprocess.PIPE
        )
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=3)
    assert waiting.communicate(timeout=60)[0] == b"\n"


def test_data_that_are_not_there_stop_nobody(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSKEW_OFFLINE", "1")
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    Path("tiny.toml").write_text(
        TINY.replace(
            "settings.split.per_client = 4", 'settings = { data.name = "svhn", split.per_client = 4 }'
        ),
        encoding="utf-8",
    )
    exit_code, said = call("reproduce", "tiny.toml", "--seeds", "0", "--workers", "1", "--scale", "quick")
    assert exit_code == 0, said
    assert re.search(r"4 runs are missing, .* for the 2 that can be made here\.", said)
    assert "not here:" in said
    assert {e.cell for e in results.read("tiny", Path("results"))} == {"two.fedavg", "two.fedlc"}


def test_common_runs_are_one_job(tmp_path: Path) -> None:
    text = TINY.replace("settings.split.per_client = 4", "settings.split.per_client = 2").replace("x = 4", "")
    recipe = tiny(tmp_path, text)
    made = jobs(cells(recipe), [0, 1], tmp_path)
    assert len({job.cell.digest for job in made}) == 2
    assert [(job.cell.name, job.seed) for job in made][:2] == [("two.fedavg", 0), ("two.fedlc", 0)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nobody-table-9",), "unknown recipe"),
        (("tiny.toml", "--cells", "three.*"), "no cell matches"),
        (("tiny.toml", "--seeds", "x"), "--seeds"),
        (("tiny.toml", "--pdf"), "--pdf goes with --figures"),
    ],
)
def test_wrong_words(call: Call, words: tuple[str, ...], message: str) -> None:
    exit_code, said = call("reproduce", *words)
    assert exit_code == 2
    assert message in said
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'metric = "global.accuracy"\nreduce = "last"',
            'metric = "global.accuracy"\nreduce = "best"',
            "reducer",
        ),
        ("fedlc = 60.0", "fedlc = 60.0, fedova = 1.0", "unknown column of row two"),
        ("fedlc = 60.0", 'fedlc = "sixty"', "sixty"),
        ('less = ["fedavg"]', "less = []", "compared with nothing"),
        ("[quick]", "[quack]", "quack"),
        ('name = "four"', 'name = "two"', "occurs twice"),
        ('["census", "clients"]', '["faces"]', "unknown detail: faces"),
        (
            'options = { score = "accuracy" }',
            'options = { score = "accuracy", row = [] }',
            "option of a picture",
        ),
        (
            'name = "two"',
            'name = "two"\nstudy.observed = 3',
            r"study of two\.fedavg needs a name; choices: classes",
        ),
        (
            'name = "two"',
            'name = "two"\nstudy.name = "class"',
            "unknown name of the study of two.fedavg: class",
        ),
        ('name = "two"', 'name = "two"\nstudy.name = "classes"', "needs the option observed"),
    ],
)
def test_a_broken_recipe_says_what_is_wrong(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TINY
    with pytest.raises(ConfigError, match=message):
        tiny(tmp_path, TINY.replace(old, new, 1))


def test_the_list_of_recipes_needs_no_torch() -> None:
    script = "import sys\nfrom fedskew.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script, "recipes"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(name in done.stdout for name in load.names())
    assert "pydantic" in done.stderr
    assert not re.search(r"\| +torch$", done.stderr, re.M)


def test_the_list_of_recipes(call: Call) -> None:
    exit_code, said = call("recipes")
    assert exit_code == 0
    assert all(name in said for name in load.names())
    exit_code, said = call("recipes", "tiny.toml")
    assert re.search(r"two\.fedavg +two, fedavg +3 +0 \+ 0 quick +2 +\? +\?", said)
    exit_code, said = call("recipes", "tiny.toml", "--measure")
    assert re.search(r"two\.fedavg +two, fedavg +3 +0 \+ 0 quick +2 +[\d.e-]+ +[\d.e-]+", said)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_schedulers_signal_ends_it_with_a_sentence(tmp_path: Path, workers: str) -> None:
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(TINY.replace("rounds = 3", "rounds = 3000"), encoding="utf-8")
    words = ["reproduce", "tiny.toml", "--cells", "*.fedavg", "--seeds", "0", "--workers", workers]
    running = subprocess.Popen(
        [sys.executable, "-m", "fedskew", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(
        place.stat().st_size for place in tmp_path.glob("runs/reproduce/*/0/metrics.jsonl")
    ):
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "The same command goes on." in out
    assert err == ""


# Studies and figures


def test_figures_from_results(call: Call, tmp_path: Path) -> None:
    exit_code, said = call(
        "reproduce", "tiny.toml", "--workers", "1", "--seeds", "0", "--figures", "figures", "--pdf"
    )
    assert exit_code == 0, said
    recipe = load.load("tiny.toml")
    found = {chart.title.rpartition(": ")[2]: chart for chart in charts(recipe, Path("results"))}
    assert set(found) == {"curves", "bars", "lines", "bubbles", "classes"}
    assert [panel.title for panel in found["curves"].panels] == ["two (1 seed)", "four (1 seed)"]
    assert found["curves"].panels[0].series[0].x == [1, 2, 3]
    assert found["lines"].panels[0].series[1].x == [2.0, 4.0]
    assert [panel.title for panel in found["bubbles"].panels] == ["two", "four"]  # data, not methods
    names = [str(name) for name in found["bubbles"].panels[0].series[0].y]
    assert names == sorted(names)
    examples, *rounds = found["classes"].panels[0].series
    assert (examples.second, {one.second for one in rounds}) == (False, {True})
    assert 1 < max(value for one in rounds for value in one.y if value is not None) <= 100
    kept = details.read("tiny", Path("results"))["two.fedavg"]
    assert sum(map(sum, kept["census"]["train"])) == 1438
    assert len(list(Path("figures").glob("tiny-*.pdf"))) == 5
    assert Path("figures/tiny.html").stat().st_size > 1_000_000


def test_a_figure_does_not_compare_full_with_quick_runs(tmp_path: Path) -> None:
    recipe = tiny(tmp_path)
    quick = entries(
        {f"{row}.{name}": [0.3] for row in ("two", "four") for name in ("fedavg", "fedlc")}, "quick"
    )
    some = [*quick, *entries({"two.fedavg": [0.5], "two.fedlc": [0.6], "four.fedavg": [0.7]})]

    def drawn(found: list[Entry]) -> dict[str, Chart]:
        material = Material(recipe, found, [], {})
        made = {picture.kind: chart(picture, material) for picture in recipe.pictures[1:3]}
        return {kind: one for kind, one in made.items() if one is not None}

    bars = drawn(some)["bars"].panels[0].series
    assert [one.x for one in bars] == [["two", "four (quick)"]] * 2
    assert [one.written for one in bars] == [["50.0*", "30.0*"], ["60.0*", "30.0*"]]
    assert [panel.title for panel in drawn(some)["lines"].panels] == ["(1 seed; quick)"]
    assert [one.y for one in drawn(some)["lines"].panels[0].series] == [[30.0, 30.0]] * 2
    all_full = drawn([*some, *entries({"four.fedlc": [0.8]})])
    assert [one.y for one in all_full["lines"].panels[0].series] == [[50.0, 70.0], [60.0, 80.0]]


def test_rows_stand_in_the_sweep_they_are_named_for(tmp_path: Path) -> None:
    text = TINY.replace('name = "two"\nx = 2', 'name = "big-e1"').replace(
        'name = "four"\nx = 4', 'name = "big-e5"\nx = 5'
    )
    text = text.replace('"big-e1"', '"big-1"') + OTHERS
    recipe, cases = tiny(tmp_path, text), ("big-1", "big-e5", "small-1", "small-5", "plain")
    found = entries({f"{row}.{name}": [0.5] for row in cases for name in ("fedavg", "fedlc")})
    made = {one.kind: chart(one, Material(recipe, found, [], {})) for one in recipe.pictures}
    lines, bars = made["lines"], made["bars"]
    assert lines
    assert [(one.title, one.series[0].x) for one in lines.panels] == [
        ("big (1 seed)", [1, 5]),
        ("small (1 seed)", [1, 5]),
    ]
    assert bars
    assert [one.x for one in bars.panels[0].series] == [["small-1", "small-5"]] * 2, "only these rows"
    with pytest.raises(ConfigError, match="picture small ones: no row matches"):
        tiny(tmp_path, text.replace('["small-*"]', '["tall-*"]'))


OTHERS = """
[[rows]]
name = "small-1"

[[rows]]
name = "small-5"

[[rows]]
name = "plain"

[[pictures]]
kind = "bars"
title = "small ones"
options = { score = "accuracy", rows = ["small-*"] }
"""


def test_only_shown_scores_have_a_table(tmp_path: Path) -> None:
    text = TINY.replace('title = "digits"', 'title = "digits"\nshown = ["start"]')
    assert (tiny(tmp_path).tables, tiny(tmp_path, text).tables) == (("accuracy", "start"), ("start",))
    with pytest.raises(ConfigError, match="unknown score to be shown: end"):
        tiny(tmp_path, text.replace('["start"]', '["end"]'))


def test_bubbles_have_one_scale(tmp_path: Path) -> None:
    census = {row: {"classes": ["a"], "train": [[size]]} for row, size in (("two", 25), ("four", 100))}
    shown = sights.panels(
        "bubbles", tiny(tmp_path), {f"{r}.fedavg": {"census": c} for r, c in census.items()}, {}
    )
    assert [panel.series[0].size for panel in shown] == [[11], [20]]
    assert [panel.y for panel in shown] == ["class (largest: 100 examples)"] * 2
    assert shown[0].series[0].written == ["25 examples"]


def test_proxies_have_the_colour_of_their_class_and_true_angles(tmp_path: Path) -> None:
    found = {
        "features": [[1, 0], [0, 3]],
        "labels": [0, 1],
        "proxies": [[1, 0], [0, 2], [1, 1]],
        "observed": [True, True, False],
    }
    (panel,) = sights.panels("plane", tiny(tmp_path), {"two.fedavg": found}, {})
    assert [one.name for one in panel.series] == ["0", "1", "0", "1", "missing class"]
    drawn = plotly(Chart("plane", (panel,))).to_dict()
    assert (panel.square, drawn["layout"]["yaxis"]["scaleanchor"]) == (True, "x")
    pdf(Chart("plane", (panel,)), tmp_path / "plane.pdf")


def test_curves_say_which_of_them_are_quick(tmp_path: Path) -> None:
    recipe = tiny(tmp_path)

    def title(**scales: str) -> str:
        points = [
            Point(f"two.{name}", scale, 0, "global.accuracy", number, 0.5)
            for name, scale in scales.items()
            for number in (1, 2)
        ]
        drawn = chart(recipe.pictures[0], Material(recipe, [], points, {}))
        assert drawn is not None
        return drawn.panels[0].title

    assert title(fedavg="full", fedlc="full") == "two (1 seed)"
    assert title(fedavg="quick", fedlc="quick") == "two (1 seed; quick)"
    assert title(fedavg="full", fedlc="quick") == "two (1 seed; quick: FedLC)"


def test_bars_stand_over_their_own_row() -> None:
    from matplotlib.figure import Figure

    first = Series("a", ["one", "two"], [1.0, 2.0], "bar", written=["1.0", "2.0"])
    second = Series("b", ["two"], [3.0], "bar", written=["3.0"])
    panel = Panel("", "", "y", (first, second))
    axes = Figure().subplots()
    _axes(axes, panel, ["a", "b"])
    assert [round(bar.get_x() + bar.get_width() / 2, 6) for bar in axes.patches] == [-0.2, 0.8, 1.2]
    assert [text.get_text() for text in axes.texts] == ["1.0", "2.0", "3.0"]
    traces = plotly(Chart("bars", (panel,))).to_dict()["data"]
    assert [trace["text"] for trace in traces] == [["1.0", "2.0"], ["3.0"]]


def test_panels_go_on_in_the_next_row(tmp_path: Path) -> None:
    panel = Panel("", "x", "y", (Series("a", [0, 1], [1.0, 2.0]),))
    both = panel._replace(series=(*panel.series, Series("b", [0, 1], [5.0, None], second=True)), right="z")
    many = Chart("four", (panel, both, panel, panel))
    shapes = {count: Chart("", (panel,) * count).grid for count in (1, 3, 4, 5, 6)}
    assert shapes == {1: (1, 1), 3: (1, 3), 4: (2, 2), 5: (2, 3), 6: (2, 3)}
    layout = plotly(many).to_dict()["layout"]
    titles = [axis["title"]["text"] for name, axis in layout.items() if name.startswith("yaxis")]
    assert sorted(titles) == ["y", "y", "y", "y", "z"]
    heat = Panel("", "x", "y", heat=[[1.0, None], [2.0, 3.0]])
    drawn = plotly(Chart("heat", (heat, heat))).to_dict()
    assert {trace["coloraxis"] for trace in drawn["data"]} == {"coloraxis"}
    pdf(Chart("heat", (heat, heat)), tmp_path / "heat.pdf")
    pdf(many, tmp_path / "four.pdf")
    assert (tmp_path / "four.pdf").read_bytes().startswith(b"%PDF")


def test_closer_looks_at_a_run(call: Call) -> None:
    looks = ("components", "f1", "map")
    text = TINY.replace('details = ["census", "clients"]', f"details = {list(looks)}")
    Path("tiny.toml").write_text(text.replace('preset = "fedlc"', 'preset = "fedova"'), encoding="utf-8")
    exit_code, said = call("reproduce", "tiny.toml", "--cells", "two.*", "--seeds", "0", "--workers", "1")
    assert exit_code == 0, said
    kept = details.read("tiny", Path("results"))
    assert kept["two.fedavg"]["components"] == []
    assert len(kept["two.fedlc"]["components"]) == 10
    assert all(0 <= value <= 1 for value in kept["two.fedlc"]["components"])
    assert [len(values) for values in kept["two.fedavg"]["f1"].values()] == [5, 5, 5]
    assert max(kept["two.fedavg"]["f1"]["everywhere"]) < max(kept["two.fedavg"]["f1"]["home"])
    assert len(kept["two.fedavg"]["map"]) == 5


CLASSES = (
    TINY.replace('split = { scheme = "labels", clients = 5 }', 'split = { scheme = "iid", clients = 1 }')
    .replace("settings.split.per_client = 2", 'study = { name = "classes", observed = 6 }')
    .replace("settings.split.per_client = 4", 'study = { name = "classes", observed = 10, targets = 6 }')
    .replace("participation = 0.6", "participation = 1.0")
    .replace('metric = "global.accuracy"\nreduce = "first"', 'metric = "distance.left"\nreduce = "first"')
)


def test_a_study_of_missing_classes(call: Call) -> None:
    Path("tiny.toml").write_text(CLASSES, encoding="utf-8")
    exit_code, said = call("reproduce", "tiny.toml", "--cells", "*.fedavg", "--seeds", "0")
    assert exit_code == 0, said
    two, four = results.read("tiny", Path("results"))
    assert two.values["distance.left.first"] > 0
    assert math.isnan(four.values["distance.left.first"])  # nothing is missing
    records = json.loads((place_of("two.fedavg") / "study.json").read_text())["records"]
    assert len(records) == 3
    assert records[0]["norm.gap"] == pytest.approx(records[0]["norm.observed"] - records[0]["norm.missing"])
    assert records[-1]["global.accuracy"] < 0.65 < records[-1]["targets.accuracy"] + 0.3
    assert (
        "0 runs are missing"
        in call("reproduce", "tiny.toml", "--cells", "*.fedavg", "--seeds", "0", "--plan")[1]
    )


def test_a_study_that_diverges_is_a_result(call: Call) -> None:
    Path("tiny.toml").write_text(CLASSES.replace("lr = 0.05", "lr = 1e30"), encoding="utf-8")
    only = ("reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0")
    exit_code, said = call(*only)
    assert exit_code == 0, said
    assert "diverged (1 of 1)" in said
    assert "0 runs are missing" in call(*only, "--plan")[1]


def test_a_deadline_stops_a_study(call: Call) -> None:
    Path("tiny.toml").write_text(CLASSES.replace("rounds = 3", "rounds = 400"), encoding="utf-8")
    only = ("reproduce", "tiny.toml", "--cells", "two.fedavg", "--seeds", "0")
    call(*only, "--plan")  # which times a client
    exit_code, said = call(*only, "--minutes", "0.01")
    assert (exit_code, "a study that was cut off begins again" in said) == (0, True), said
    assert not place_of("two.fedavg").exists()


SKEW = 'settings.split = { scheme = "dirichlet", beta = 0.2, clients = 5 }'
AFTER = """
[[rows]]
name = "after"
settings.split.per_client = 4
settings.train = { rounds = 1, participation = 1.0 }
study = { name = "one-epoch", recipe = "tiny.toml", cell = "four.fedavg" }
"""


def test_one_epoch_from_a_common_model(call: Call) -> None:
    text = TINY.replace("[[claims]]", AFTER + "\n[[claims]]", 1).replace(
        "settings.split.per_client = 4", SKEW
    )
    Path("tiny.toml").write_text(text, encoding="utf-8")
    only = ("reproduce", "tiny.toml", "--seeds", "0", "--workers", "1", "--cells")
    assert call(*only, "four.fedavg")[0] == 0
    shutil.rmtree("runs")  # its results are kept, but the model that the study begins with is gone
    assert "3 runs are missing" in call(*only, "after.*", "--plan")[1]
    exit_code, said = call(*only, "after.*")
    assert exit_code == 0, said
    assert "0 runs are missing" in call(*only, "after.*", "--plan")[1]
    told = {
        name: json.loads((place_of(f"after.{name}") / "study.json").read_text())
        for name in ("fedavg", "fedlc")
    }
    Path("tiny.toml").write_text(text.replace("rounds = 3", "rounds = 4"), encoding="utf-8")
    assert "3 runs are missing" in call(*only, "after.*", "--plan")[1], "it begins with another model"
    Path("tiny.toml").write_text(text, encoding="utf-8")
    start = {name: one["records"][0]["start.accuracy"] for name, one in told.items()}
    assert start["fedavg"] == start["fedlc"]
    assert told["fedavg"]["records"][0]["local.missing"] < told["fedlc"]["records"][0]["local.missing"]
    assert told["fedavg"]["details"]["start"] != told["fedavg"]["details"]["local"]
    assert len(told["fedavg"]["details"]["map"]) == len(told["fedavg"]["details"]["kinds"])
    recipe, kept = load.load("tiny.toml"), details.read("tiny", Path("results"))
    bars, bounds, clouds = (
        sights.panels(kind, recipe, kept, {}) for kind in ("before-after", "bounds", "map")
    )
    client, shown = told["fedavg"]["details"]["client"], told["fedavg"]["details"]["shown"]
    assert clouds[0].x == f"client {client}, classes: " + ", ".join(
        f"{kind} {label}" for kind, label in shown.items()
    )
    assert re.fullmatch(r"class r \(\d+ % of pairs deviate\)", bounds[0].x)
    assert [panel.title for panel in bars] == ["after, fedavg", "after, FedLC"]
    assert [panel.title for panel in bounds] == ["after, plain", "after, calibrated"], "of the common model"


def test_jobs_know_their_folder(tmp_path: Path) -> None:
    cell = cells(load.load("fedova-table-3"))[0]
    job = Job(cell, 7, folder(cell, 7, tmp_path))
    assert job.place == tmp_path / "reproduce" / f"fedavg-fashion-mnist-{cell.digest}" / "7"


# The page


def test_the_page_says_what_the_results_say() -> None:
    """If this fails: python -m fedskew.reproduce.document."""
    assert (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8") == document.render(
        ROOT / "results"
    )


def test_results_are_of_the_present_recipes_and_tools() -> None:
    names = {path.name.partition(".")[0] for path in (ROOT / "results").glob("*.csv")}
    assert names <= set(load.names()) | {path.stem for path in (ROOT / "tools").glob("*.py")}


def test_without_published_numbers_every_method_has_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load.load("map-comparison")
    made = [
        Entry(
            *(f"{row}.{column}", scale, seed, "done", 30, "digest", "code", 1.0),
            {"global.accuracy.mean10": 0.5 + 0.1 * seed, "global.accuracy.last": 0.4},
        )
        for row, column, scale, seeds in (
            ("mlpnet", "fedavg", "full", 3),
            ("mlpnet", "map", "quick", 1),
            ("lenet", "map", "full", 3),
        )
        for seed in range(seeds)
    ]
    assert list(tables.table(recipe, made, "global"))[1:] == [
        "|  | FedAvg | MAP | seeds | rounds |",
        "|---|---|---|---|---|",
        "| Fashion-MNIST, MLPNet | 60.0 ± 10.0 (40.0) | 50.0* (40.0) quick | 3 or 1 | 150 or 30 of 150 (quick) |",
        "| Fashion-MNIST, LeNet | - | 60.0 ± 10.0 (40.0) | 3 | 150 |",
    ]
    monkeypatch.setattr(tables, "MANY", 1)
    assert list(tables.table(recipe, made, "global"))[1:] == [
        "|  | Fashion-MNIST, MLPNet | Fashion-MNIST, LeNet | seeds | rounds |",
        "|---|---|---|---|---|",
        "| FedAvg | 60.0 ± 10.0 (40.0) | - | 3 | 150 |",
        "| MAP | 50.0* (40.0) quick | 60.0 ± 10.0 (40.0) | 1 or 3 | 30 of 150 (quick) or 150 |",
    ], "many methods stand below each other"
    assert not list(tables.table(recipe, (), "global"))


def test_a_page_with_results(tmp_path: Path) -> None:
    recipe = load.load("fedova-table-1")
    some = [cell for cell in cells(recipe) if cell.row == "fashion-2" and cell.column in ("fedavg", "fedova")]
    high = {"fedavg": 0.84, "fedova": 0.9}
    late = {"fedavg": 0.83, "fedova": 0.85}
    made = [
        Entry(
            *(cell.name, "full", seed, "done", 200, cell.digest, "0.1.0+x", 3600.0),
            {
                "global.accuracy.mean20": high[cell.column],
                "global.accuracy.last": late[cell.column],
                "global.accuracy.sixth": 0.8 - 0.2 * seed,
            },
        )
        for cell in some
        for seed in (0, 1, 2)
    ]
    results.write(recipe, tmp_path, made)
    page = document.render(tmp_path)
    assert "| Fashion-MNIST, non-IID-2 | FedOVA | 89.4 | 90.0 ± 0.0 | 85.0 | +0.6 | 3 | 200 |" in page
    far = (
        "Seeds far apart (a deviation above 10 points): Fashion-MNIST, non-IID-2, FedAvg: 80.0, 60.0, 40.0; "
    )
    assert page.count("Seeds far apart") == 1
    assert far in page
    assert re.search(r"\| C-1 \| FedOVA, .* \| confirmed so far \(1 of 9 comparisons tested\) \|", page)
    assert re.search(r"\| C-5 \| .* \| refuted so far \(1 of 3 comparisons tested\) \|", page)
    assert "| FedOVA | [C-1](#fedova-table-1)* | - | - | [C-1](#fedova-table-1), " in page
    assert "[C-5]" not in page, "it is no claim of the paper"
    told = document.summary(tmp_path).split("- **")
    assert [text.partition("**")[0] for text in told] == ["", "FedOVA", "GRP-FED"]
    assert " ".join(told[1].split()) == (
        "FedOVA** on Fashion-MNIST, two labels a client (3 seeds): it is where the paper has it, 90.0 (89.4), but "
        "FedAvg is better than printed, 84.0 (84.3), so that its lead is +6.0 points and not +5.1. It moves six times "
        "the bytes: after a sixth of the rounds, which is FedAvg's traffic, it has 60.0."
    )
    assert "6 runs (0 quick), 6.0 hours by the clock, code 0.1.0+x." in page
