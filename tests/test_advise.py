"""Advice from counts: measures against loops written out, no number that was not measured."""

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from command import fedskew, works

from fedskew import evidence, tally
from fedskew.advise import OVERALL, PERSONAL, _ranked, advise, measure, suffering, words
from fedskew.errors import ConfigError, DataError
from fedskew.evidence import Finding, Setting
from fedskew.reproduce.cells import cells
from fedskew.reproduce.recipe import Recipe
from fedskew.reproduce.results import Entry
from fedskew.stats import Mean
from fedskew.tally import Tally

SKEWED = np.array([[50, 0, 0, 0], [0, 30, 20, 0], [10, 0, 80, 0], [0, 40, 0, 5], [9, 9, 9, 0]])
TWO_EACH = np.repeat(
    np.repeat(np.eye(5, dtype=np.int64), 2, axis=1) * 30, 2, axis=0
)  # 10 clients, 10 classes
EVEN = np.full((10, 10), 200)
NAMES = tuple("abcd")


def distance(counts: np.ndarray) -> float:
    """The mean Jensen-Shannon distance (base 2) of clients from the whole, as plain loops."""
    everyone = [counts[:, c].sum() / counts.sum() for c in range(counts.shape[1])]
    found = []
    for row in counts:
        mine, total = [value / row.sum() for value in row], 0.0
        for p, q in zip(mine, everyone, strict=True):
            middle = (p + q) / 2
            total += (p * math.log2(p / middle) if p else 0.0) / 2
            total += (q * math.log2(q / middle) if q else 0.0) / 2
        found.append(math.sqrt(total))
    return sum(found) / len(found)


def test_the_measures_are_what_they_say() -> None:
    skew = measure(SKEWED)
    assert skew.distance == pytest.approx(distance(SKEWED))
    assert (skew.clients, skew.classes, skew.samples, skew.alone) == (5, 4, 262, 1)
    assert skew.missing == pytest.approx(10 / 20)
    assert skew.sizes == (27, 50, 90)
    assert skew.held == (1, 2, 3)


def test_an_even_deal_is_not_called_skewed_for_being_small() -> None:
    draw = np.random.default_rng(1)
    small = np.stack([draw.multinomial(20, [0.1] * 10) for _ in range(30)])
    assert measure(small).distance > 0.2
    assert measure(small).by_chance == pytest.approx(measure(small).distance, abs=0.03)
    assert words(measure(small)).startswith("as even as chance")
    assert advise(Tally(small, tuple("abcdefghij"))).suggestions[0].method == "fedavg"
    assert words(measure(EVEN)) == "hardly skewed"
    assert words(measure(TWO_EACH)) == "extremely skewed"
    assert words(measure(SKEWED)) == "strongly skewed"


def test_the_share_of_rounds_without_a_holder_is_counted_out() -> None:
    counts = np.array([[5, 1, 0], [5, 1, 0], [5, 0, 2], [5, 1, 0], [5, 1, 0], [5, 1, 0]])
    (found,) = suffering(Tally(counts, ("a", "b", "c")), participation=0.5)
    rounds = list(combinations(range(6), 3))
    assert found.name == "c"
    assert found.absent == pytest.approx(sum(2 not in chosen for chosen in rounds) / len(rounds))
    assert (found.holders, found.samples) == (1, 2)


def test_nobody_suffers_where_all_have_all() -> None:
    assert not list(suffering(Tally(EVEN, tuple(map(str, range(10)))), 0.5))


def test_a_method_that_cannot_work_is_left_out_with_the_reason() -> None:
    advice = advise(Tally(SKEWED, NAMES))
    chosen = [one.method for one in advice.suggestions]
    assert "fedlc" not in chosen
    assert [name for name, _ in advice.left_out] == ["fedlc"]
    assert "hold one label" in advice.left_out[0][1]
    every_pair = np.array([[30, 20, 0], [0, 25, 30], [40, 0, 20]] * 3)
    assert "fedlc" in [one.method for one in advise(Tally(every_pair, tuple("abc"))).suggestions]
    apart = advise(Tally(TWO_EACH, tuple("abcdefghij"))).left_out
    assert [name for name, _ in apart] == ["fedlc"]
    assert "meet in no client" in apart[0][1]


def test_a_first_column_of_words_names_the_clients(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("site,a,b\nnorth,9,0\nsouth,4,5\n")
    assert tally.read(path).classes == ("a", "b")
    path.write_text("7,a,b\n1,9,0\n2,4,5\n")
    assert tally.read(path).classes == ("7", "a", "b")
    path.write_text(",a,b\n0,9,0\n1,4,5\n")  # as pandas writes a table
    assert tally.read(path).classes == ("a", "b")
    path.write_text("site,a,b\nnorth,9,many\nsouth,4,5\n")
    with pytest.raises(DataError, match="column 'b' has a count that is no number"):
        tally.read(path)


def test_an_even_federation_is_told_to_begin_with_fedavg() -> None:
    assert advise(Tally(EVEN, tuple("abcdefghij"))).suggestions[0].method == "fedavg"


def test_without_measurements_none_are_claimed(tmp_path: Path) -> None:
    Path(tmp_path, "counts.csv").write_text("client,a,b,c\nx,9,0,0\ny,4,5,0\nz,0,3,3\n")
    said = works("advise", str(tmp_path / "counts.csv"), "--results", str(tmp_path))
    assert said.count("not measured on a federation like this one") == 3
    assert "measured: " not in said
    assert "±" not in said
    assert "held by 1, 3 examples" in said
    assert "fedskew compare CONFIG --methods fedavg," in said


def recipe() -> Recipe:
    return Recipe.model_validate(
        {
            "name": "test",
            "paper": "us",
            "where": "here",
            "title": "a test",
            "settings": {"data": {"name": "digits"}, "split": {"scheme": "labels", "clients": 20}},
            "scores": {"global": {"label": "global", "metric": OVERALL}},
            "columns": [
                {"name": "fedavg", "settings": {"method": {"preset": "fedavg"}}},
                {"name": "moon", "settings": {"method": {"preset": "moon"}}},
                {"name": "fedlc", "settings": {"method": {"preset": "fedlc"}}},
            ],
            "rows": [
                {"name": "two", "settings": {"split": {"per_client": 2}}},
                {"name": "ten", "settings": {"split": {"per_client": 10}}},
            ],
        }
    )


def entry(cell: str, seed: int, value: float, status: str = "done") -> Entry:
    return Entry(cell, "full", seed, status, 5, cell, "v", 1.0, {f"{OVERALL}.mean10": value})


ENTRIES = [
    *(entry("two.fedavg", 0, 0.50), entry("two.fedavg", 1, 0.60)),
    *(entry("two.moon", 0, 0.70), entry("two.moon", 1, 0.80)),
    *(entry("two.fedlc", 0, 0.40), entry("two.fedlc", 1, 0.42)),
    *(entry("ten.fedavg", 0, 0.90), entry("ten.moon", 0, 0.10), entry("ten.moon", 1, 0.99, "diverged")),
]


def test_what_was_measured_under_such_skew_comes_first_with_its_source() -> None:
    found = evidence.findings(cells(recipe()), ENTRIES, (OVERALL, PERSONAL))
    advice = advise(Tally(TWO_EACH, tuple("abcdefghij")), found)
    best = advice.suggestions[0]
    assert best.method == "moon"
    (told,) = best.evidence
    assert told.value.mean == pytest.approx(0.75)
    assert told.base.mean == pytest.approx(0.55)
    assert (told.setting.recipe, told.setting.row, told.value.n) == ("test", "two", 2)
    assert "fedlc" not in [one.method for one in advice.suggestions], "it was measured to be worse"


def test_a_setting_with_another_skew_is_no_evidence() -> None:
    found = evidence.findings(cells(recipe()), ENTRIES, (OVERALL,))
    assert {one.setting.row for one in found} == {"two", "ten"}
    near = evidence.like(found, measure(TWO_EACH).distance, measure(TWO_EACH).missing)
    assert {one.setting.row for one in near} == {"two"}


def test_the_skew_of_a_setting_is_that_of_its_split() -> None:
    found = {one.setting.row: one.setting for one in evidence.findings(cells(recipe()), ENTRIES, (OVERALL,))}
    assert found["two"].missing == pytest.approx(0.8)
    assert found["two"].distance == pytest.approx(distance(TWO_EACH), abs=0.02)
    assert found["ten"].missing == 0
    assert found["ten"].distance < 0.15


def test_a_method_is_held_against_fedavg_under_the_same_seeds() -> None:
    found = evidence.findings(cells(recipe()), [*ENTRIES, entry("two.fedavg", 2, 0.99)], (OVERALL,))
    (moon,) = [one for one in found if (one.setting.row, one.method) == ("two", "moon")]
    assert moon.base.mean == pytest.approx(0.55)


def test_a_run_that_several_tables_show_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence.load, "names", lambda: ["table", "figure"])
    monkeypatch.setattr(evidence.load, "load", lambda name: recipe())
    monkeypatch.setattr(evidence.results, "read", lambda name, folder: ENTRIES)
    found = [one for one in evidence.gather(tmp_path, (OVERALL,)) if one.setting.row == "two"]
    assert sorted(one.method for one in found) == ["fedavg", "fedlc", "moon"]


def test_a_run_that_diverged_is_no_evidence() -> None:
    found = evidence.findings(cells(recipe()), ENTRIES, (OVERALL,))
    (moon,) = [one for one in found if (one.setting.row, one.method) == ("ten", "moon")]
    assert moon.value.n == 1


def test_evidence_is_printed_with_file_and_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Setting("test", "two", "digits, labels (per_client = 2)", 0.78, 0.8)
    told = Finding(where, "moon", OVERALL, Mean(0.751, 0.02, 3), Mean(0.55, 0.01, 3))
    monkeypatch.setattr(evidence, "gather", lambda folder, metrics: [told])
    rows = [",".join(map(str, row)) for row in TWO_EACH]
    Path(tmp_path, "c.csv").write_text("\n".join([",".join("abcdefghij"), *rows]))
    said = works("advise", str(tmp_path / "c.csv"))
    assert "1. moon" in said
    assert "75.1 ± 2.0 against FedAvg's 55.0 ± 1.0 (global.accuracy, 3 seeds)" in said
    assert "results/test.csv, two" in said


def test_counts_from_a_run_a_partition_and_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = '[split]\nscheme = "labels"\nclients = 5\nper_client = 2\n[train]\nrounds = 1\n'
    Path("c.toml").write_text(text, encoding="utf-8")
    works("run", "c.toml", "--workers", "1")
    works("partition", "c.toml", "--save", "split.json")
    configured = tally.read(Path("c.toml"))
    for other in (
        tally.read(Path("runs/run/0")),
        tally.read(Path("runs/run/0/partition.json")),
        tally.read(Path("split.json"), "digits"),
    ):
        assert np.array_equal(other.counts, configured.counts)
        assert other.classes == configured.classes
    assert int(configured.counts.sum()) == 1438
    assert (configured.participation, tally.read(Path("runs/run/0")).participation) == (0.5, 0.5)
    alone = text.replace("clients = 5\nper_client = 2", "clients = 10\nper_client = 1")
    Path("few.toml").write_text(alone + "participation = 0.1\n", encoding="utf-8")
    assert tally.read(Path("few.toml")).participation == 0.1
    said = works("advise", "few.toml")
    assert "at participation 0.1 nobody who holds it takes part in 90 % of the rounds" in said
    assert "No measurements in results" in said
    with pytest.raises(ConfigError, match="--data digits"):
        tally.read(Path("split.json"))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("client,a,b\nx,1,two\n", "no number"),
        ("a,b\n1,1.5\n", "no whole number"),
        ("a,b\n1,-2\n", "negative"),
        ("a,b\n0,0\n", "all of them 0"),
        ("a\n1\n", "two classes or more"),
        ("a,b\n1\n", "values for"),
        ("a,a\n1,2\n", "same name"),
        ("a,b\n", "at least one row"),
    ],
)
def test_wrong_tables(text: str, holds: str, tmp_path: Path) -> None:
    Path(tmp_path, "c.csv").write_text(text)
    with pytest.raises(DataError, match=holds):
        tally.read(tmp_path / "c.csv")


def test_wrong_files(tmp_path: Path) -> None:
    assert fedskew("advise", str(tmp_path)).code == 2
    assert fedskew("advise", str(tmp_path / "c.txt")).code == 2
    Path(tmp_path, "census.json").write_text("{}")
    assert fedskew("advise", str(tmp_path)).code == 3


def test_a_client_without_examples_is_no_obstacle() -> None:
    assert advise(Tally(np.array([[9, 0, 3], [0, 0, 0], [4, 5, 0]]), tuple("abc"))).suggestions


def test_a_gain_that_decides_nothing_is_no_rank() -> None:
    reasons = {"fedrs": "restricts", "scaffold": "corrects"}

    def found(method: str, gain: float) -> Finding:
        return Finding(
            Setting("r", "row", "here", 0.5, 0.5), method, "m", Mean(0.8 + gain, 0.0, 1), Mean(0.8, 0.0, 1)
        )

    near = [found("fedlc", 0.004), found("fedabc", 0.01), found("fedrs", -0.004), found("scaffold", -0.02)]
    assert _ranked(near, "m", reasons) == ["fedabc", "fedrs"]
