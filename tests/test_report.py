"""The page: what it says, that it needs nothing else, and that no name in it can do harm."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import socket
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from click.testing import Result
from report_runs import level, make, settings
from typer.testing import CliRunner

from fedskew import runs
from fedskew.config import parse
from fedskew.errors import ConfigError
from fedskew.listing import details
from fedskew.report import again, answer, gather, series, significance
from fedskew.report.figure import COLOURS, looks, thin
from fedskew.report.page import Page, compose, embedded, standalone, write
from fedskew.report.study import Study, study
from fedskew.report.table import Cell, escape_latex, number, size, spread, text
from fedskew.report.table import make as make_table
from fedskew.results import Result as Kept
from fedskew.results import Results
from fedskew.stats import Mean

EVIL = "<script>alert(1)</script>"


def studied(places: list[Path]) -> Study:
    return study([gather.read(place) for place in places])


def three_methods(
    out: Path, seeds: int = 3, methods: tuple[str, ...] = ("fedavg", "fedlc", "scaffold")
) -> list[Path]:
    return [make(out, settings(method), seed) for method in methods for seed in range(seeds)]


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """What is written here need not survive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return compose(studied(three_methods(tmp_path_factory.mktemp("runs"))), look_inside=False)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two methods trained for three rounds."""
    out = tmp_path_factory.mktemp("real")
    table = {
        "split": {"scheme": "labels", "clients": 5, "per_client": 4},
        "train": {"rounds": 3, "epochs": 1, "participation": 0.5},
        "evaluate": {"every": 1, "personal": 1},
        "engine": {"name": "serial", "backend": "autograd"},
    }
    places = []
    for method in ("fedavg", "grpfed"):
        config = parse({**table, "name": method, "method": {"preset": method}}, "a test")
        places.append(runs.begin(config, 0, out))
        runs.carry_on(places[-1])
    return places


# Statistics


def test_holm_is_the_step_down_rule() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    # By hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, then 0.04, which may not fall below 0.06.
    assert significance.holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert significance.holm([0.9, 0.8]) == [1.0, 1.0]
    assert significance.holm([]) == []


def test_signed_rank_of_six_wins_is_the_least_it_can_be() -> None:
    a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    b = [0.9, 1.8, 2.7, 3.6, 4.5, 5.4]
    assert significance.signed_rank(a, b) == pytest.approx(2 / 2**6)
    assert significance.signed_rank(a, a) == 1.0


@pytest.mark.parametrize(("k", "q"), [(3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_difference_has_the_published_quantiles(k: int, q: float) -> None:
    """Table 5 of Demsar (2006)."""
    values = {f"m{i}": [float(i)] * 20 for i in range(k)}
    found = significance.ranking(values)
    assert found.critical == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 20)), abs=2e-3)


def test_ranks_share_ties_and_join_what_is_alike() -> None:
    found = significance.ranking({"a": [3.0, 3.0], "b": [3.0, 1.0], "c": [1.0, 2.0]})
    assert found.ranks == pytest.approx({"a": 1.25, "b": 2.25, "c": 2.5})
    apart = significance.Ranking({"a": 1.0, "b": 1.5, "c": 2.6, "d": 3.0}, critical=1.2, pairs=9)
    assert apart.alike() == [("a", "b"), ("b", "c"), ("c", "d")]


# The answer


def test_the_best_method_and_its_lead(tmp_path: Path) -> None:
    found = answer.finding(studied(three_methods(tmp_path)).settings[0], "global.accuracy")
    assert found is not None
    assert (found.best, found.seeds, [one.other for one in found.against]) == (
        "fedlc",
        3,
        ["scaffold", "fedavg"],
    )
    mine, theirs = (
        [
            100 * np.mean([level(settings(method).changed({"seeds": [seed]}), n) for n in range(2, 12)])
            for seed in range(3)
        ]
        for method in ("fedlc", "scaffold")
    )
    assert found.against[0].difference.mean == pytest.approx(np.mean(mine) - np.mean(theirs))
    assert found.against[0].wins == 3
    assert found.against[0].p is None  # three pairs could not decide anything
    assert found.sureness == "agreed"  # and so cannot be more than that
    assert found.baseline is not None
    assert found.baseline.other == "fedavg"


def test_one_seed_is_no_evidence_and_one_method_no_comparison(tmp_path: Path) -> None:
    single = answer.finding(studied(three_methods(tmp_path / "a", seeds=1)).settings[0], "global.accuracy")
    assert single is not None
    assert single.sureness == "single"
    alone = answer.finding(studied([make(tmp_path / "b", settings("map"))]).settings[0], "global.accuracy")
    assert alone is not None
    assert (alone.sureness, alone.best) == ("alone", "map")


def test_six_pairs_bring_the_test_and_the_diagram(tmp_path: Path) -> None:
    few, many = studied(three_methods(tmp_path / "few", 5)), studied(three_methods(tmp_path / "many", 6))
    assert answer.ranking(few, "global.accuracy") is None
    ranking = answer.ranking(many, "global.accuracy")
    assert ranking is not None
    assert ranking.ranks == {"fedlc": 1.0, "scaffold": 2.0, "fedavg": 3.0}
    found = answer.finding(many.settings[0], "global.accuracy")
    assert found is not None
    assert [one.p for one in found.against] == pytest.approx([2 * 2 / 2**6] * 2)
    ids = {figure.id for section in compose(many, False).sections for figure in section.figures}
    assert "ranks" in ids
    assert "ranks" not in {f.id for section in compose(few, False).sections for f in section.figures}


@pytest.mark.parametrize(
    ("seeds", "rounds", "sureness"),
    [(2, None, "agreed"), (6, None, "agreed"), (8, None, "clear"), (8, 5, "agreed")],
)
def test_a_further_seed_that_agrees_never_weakens_a_finding(
    seeds: int, rounds: int | None, sureness: str, tmp_path: Path
) -> None:
    places = three_methods(tmp_path, seeds)
    if rounds is not None:
        places.append(make(tmp_path, settings("map"), 0, rounds))
    found = answer.finding(studied(places).settings[0], "global.accuracy")
    assert found is not None
    assert found.sureness == sureness


def test_a_mean_ends_where_a_seed_diverged(tmp_path: Path) -> None:
    broke = [("diverged", {"why": "too fast"})]
    places = [make(tmp_path, settings("fedavg"), 0), make(tmp_path, settings("fedavg"), 1, 5, events=broke)]
    (arm,) = studied(places).settings[0].arms
    traces = series.curve(
        arm, looks(["fedavg"])["fedavg"], lambda run: dict.fromkeys(range(run.rounds), 0.5), series.rounds
    )
    assert len(traces[-1]["x"]) == 5


def test_who_diverged_in_a_seed_is_last_there(tmp_path: Path) -> None:
    broke = [("diverged", {"why": "too fast"})]
    places = [make(tmp_path, settings(m), s) for m in ("fedavg", "scaffold") for s in range(9)]
    places += [
        make(tmp_path, settings("fedlc"), s, *((4,) if s < 3 else ()), events=broke * (s < 3))
        for s in range(9)
    ]
    ranking = answer.ranking(studied(places), "global.accuracy")
    assert ranking is not None
    assert ranking.pairs == 9
    assert ranking.ranks["fedlc"] == pytest.approx((6 * 1 + 3 * 3) / 9)


def test_methods_are_paired_on_the_seeds_they_share(tmp_path: Path) -> None:
    places = [make(tmp_path, settings("fedavg"), s) for s in (0, 1)] + [
        make(tmp_path, settings("fedlc"), s) for s in (1, 2)
    ]
    found = answer.finding(studied(places).settings[0], "global.accuracy")
    assert found is not None
    assert (found.seeds, found.against[0].seeds) == (1, 1)


def test_the_best_is_chosen_on_the_seeds_that_all_have(tmp_path: Path) -> None:
    """By all seeds of each, fedavg would be the best: it was run under a good one more."""
    names = {"fedavg": (0.5, 0.9), "fedlc": (0.6,)}
    runs_of = {
        name: [Kept(name, name, seed, ({"round": 0, "global.accuracy": v},)) for seed, v in enumerate(values)]
        for name, values in names.items()
    }
    every = Results(tuple(run for runs in runs_of.values() for run in runs))
    assert every.best("global.accuracy") == "fedavg"
    assert every.common("global.accuracy").best("global.accuracy") == "fedlc"
    assert every.common("personal.accuracy") == every, "nobody has it"
    places = [make(tmp_path, settings("fedavg"), s) for s in (0, 1)] + [make(tmp_path, settings("fedlc"), 1)]
    assert any("not all have the same seeds" in note for note in studied(places).notes)


def test_methods_without_one_model_for_all_are_named(tmp_path: Path) -> None:
    places = [runs.begin(settings(method, 1, clients=5), 0, tmp_path) for method in ("fedavg", "fedper")]
    for place in places:
        runs.carry_on(place)
    found = studied(places)
    said = "fedper: no one model for all; global numbers are of all clients' models together."
    assert said in found.notes
    assert str(found.settings[0].results).endswith(said)
    voters = {arm.label: arm.results()[0].series("global.voters")[-1:] for arm in found.settings[0].arms}
    assert voters == {"fedavg": [], "fedper": [5]}


# Runs put in order


def test_runs_that_differ_in_more_than_the_method_are_not_compared(tmp_path: Path) -> None:
    slow = settings("fedavg").changed({"train.lr": 0.001, "name": "slow"})
    found = studied(
        [make(tmp_path, settings("fedavg")), make(tmp_path, settings("fedlc")), make(tmp_path, slow)]
    )
    assert [setting.label for setting in found.settings] == ["train.lr=0.05", "train.lr=0.001"]
    assert [[arm.label for arm in setting.arms] for setting in found.settings] == [
        ["fedavg", "fedlc"],
        ["fedavg"],
    ]


def test_options_tell_two_uses_of_a_method_apart(tmp_path: Path) -> None:
    strong = settings("fedprox").changed({"method.Proximal": {"mu": 0.1}, "name": "strong"})
    found = studied([make(tmp_path, settings("fedprox")), make(tmp_path, strong)])
    assert found.labels == ["fedprox default", "fedprox Proximal.mu=0.1"]


def test_a_diverged_seed_takes_the_mean_with_it(tmp_path: Path) -> None:
    places = three_methods(tmp_path, 2, ("fedavg", "scaffold"))
    places.append(make(tmp_path, settings("fedlc"), 0, 5, events=[("diverged", {"why": "not finite"})]))
    places.append(make(tmp_path, settings("fedlc"), 1))
    found = studied(places)
    best = answer.finding(found.settings[0], "global.accuracy")
    assert best is not None
    assert "fedlc" not in (best.best, *(one.other for one in best.against))
    assert any("diverged after 5 rounds" in note for note in found.notes)


def test_a_run_that_was_taken_up_again_has_not_diverged(tmp_path: Path) -> None:
    events = [("diverged", {"why": "x"}), ("resumed", {"round": 5})]
    assert gather.read(make(tmp_path, settings("fedlc"), 0, 5, events=events)).diverged is None


def test_unfinished_repeated_and_empty_runs_are_said(tmp_path: Path) -> None:
    places = [
        make(tmp_path, settings("fedavg"), 0, 7),
        make(tmp_path, settings("fedavg", name="copy"), 0, 9),
        make(tmp_path, settings("fedlc"), 0, 0),
    ]
    found = studied(places)
    assert [run.rounds for run in found.runs] == [9]
    said = " ".join(found.notes)
    assert "not complete (the least has 9 rounds)" in said
    assert "copy/0 repeats" in said
    assert "1 runs have not finished a round" in said


def test_a_part_without_options_is_another_method(tmp_path: Path) -> None:
    robust = settings("fedavg", name="robust").changed({"method.Median": {}})
    found = studied([make(tmp_path, settings("fedavg"), 0, 3), make(tmp_path, robust, 0, 3)])
    assert found.labels == ["fedavg default", "fedavg Median"]
    assert not any("repeats" in note for note in found.notes)
    assert runs.read(tmp_path / "robust" / "0").method == "fedavg with Median"


def test_nothing_to_report_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run has finished a round"):
        studied([make(tmp_path, settings("fedavg"), 0, 0)])


# The same again


def test_the_command_gives_the_same_numbers(
    real: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rerun,) = again.reruns(studied(real).settings)
    assert rerun.command == "fedskew compare settings.toml --methods fedavg,grpfed --seeds 0"
    (tmp_path / rerun.file).write_text(rerun.toml)
    monkeypatch.chdir(tmp_path)
    done = invoke(*rerun.command.split()[1:], "--workers", "1")
    assert done.exit_code == 0, done.output
    for place in real:
        (same,) = (tmp_path / "runs").glob(f"*{place.parent.name}/0/metrics.jsonl")
        assert same.read_bytes() == (place / "metrics.jsonl").read_bytes()


def test_methods_with_options_have_commands_of_their_own(tmp_path: Path) -> None:
    strong = settings("fedprox").changed({"method.Proximal": {"mu": 0.1}, "name": "strong"})
    found = studied([make(tmp_path, settings("fedavg"), 3), make(tmp_path, strong, 3)])
    first, second = again.reruns(found.settings)
    assert first.command == "fedskew run settings-1.toml --seeds 3"
    assert parse(_toml(second.toml), "the page").method.options == {"Proximal": {"mu": 0.1}}


def _toml(text: str) -> dict[str, object]:
    import tomllib

    return tomllib.loads(text)


# Tables


def test_csv_has_plain_numbers_and_no_formula() -> None:
    rows = [
        [text("=1+1"), spread(Mean(0.5, 0.01, 3)), size(1_500_000)],
        [text("b"), spread(Mean(0.4, math.nan, 1)), size(None)],
    ]
    made = make_table("t", "T", "how", ["@name", "value", "bytes"], rows)
    assert list(csv.reader(io.StringIO(made.csv()))) == [
        ["'@name", "value", "value std", "bytes"],
        ["'=1+1", "50", "1", "1.5e+06"],
        ["b", "40", "", "–"],
    ]
    assert [cell.text for cell in rows[0]] == ["=1+1", "50.0 ± 1.0", "1.5 MB"]


def test_latex_is_escaped() -> None:
    made = make_table(
        "t", "T", "how", ["a_b", "50 %"], [[text(r"\input{x} & $~^#"), number(-1.25, "{:+.1f}", strong=True)]]
    )
    lines = made.latex().splitlines()
    assert lines[2] == r"a\_b & 50 \% \\"
    assert (
        lines[4]
        == r"\textbackslash{}input\{x\} \& \$\textasciitilde{}\textasciicircum{}\# & \textbf{-1.2} \\"
    )
    assert escape_latex("<±>") == r"\textless{}$\pm$\textgreater{}"


def test_a_number_that_is_not_there_is_a_dash() -> None:
    assert number(math.nan) == number(None) == Cell("–")


# The page


class Reader(HTMLParser):
    """Collects elements, so that tests ask for structure and not for text."""

    def __init__(self, text: str) -> None:
        HTMLParser.__init__(self)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_the_page_loads_nothing(page: Page) -> None:
    read = Reader(standalone(page))
    links = [
        value
        for _, attributes in read.elements
        for key, value in attributes.items()
        if key in ("src", "href")
    ]
    assert links
    assert all(link and link.startswith(("#", "data:")) for link in links)
    policy = next(
        meta["content"] for meta in read.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.split("style-src")[0]


def test_every_figure_and_table_explains_itself(page: Page) -> None:
    figures = [figure for section in page.sections for figure in section.figures]
    tables = [table for section in page.sections for table in section.tables]
    assert {
        "result",
        "lead",
        "counts",
        "sizes",
        "held",
        "curves",
        "per-class",
        "groups",
        "confusion",
        "drift",
    } <= {figure.id for figure in figures}
    ids = [one.id for one in (*figures, *tables)]
    assert len(ids) == len(set(ids))
    for one in (*figures, *tables):
        assert one.title
        assert one.how.endswith((".", " "))
    for figure in figures:
        assert figure.views
        for view in figure.views.values():
            assert view["data"], figure.id
            assert all(
                view["layout"][axis]["title"]["text"] or axis == "yaxis" for axis in ("xaxis", "yaxis")
            )


def test_every_combination_of_controls_has_a_view(page: Page) -> None:
    for figure in (figure for section in page.sections for figure in section.figures):
        first = "|".join(control.options[control.start][0] for control in figure.controls)
        assert first in figure.views, figure.id
        for key in figure.views:
            values = key.split("|") if key else []
            assert len(values) == len(figure.controls)
            for value, control in zip(values, figure.controls, strict=True):
                assert value in dict(control.options)


def test_every_table_can_be_taken_away(page: Page) -> None:
    links = [a for a in Reader(standalone(page)).all("a") if a.get("download")]
    names = {link["download"] for link in links}
    for table in (table for section in page.sections for table in section.tables if table.rows):
        assert {f"{table.id}.csv", f"{table.id}.tex"} <= names
    summary = next(link for link in links if link["download"] == "summary.csv")
    assert (
        unquote(str(summary["href"]))
        .split(",", 1)[1]
        .startswith("method,seeds,global accuracy,global accuracy std")
    )


def test_names_cannot_do_harm(tmp_path: Path) -> None:
    classes = (EVIL, "</script><img src=x onerror=alert(1)>", '" onload="alert(1)', "=cmd|' /C calc'!A0")
    place = make(tmp_path, settings("fedavg"), classes=classes, events=[("dropped", {"who": EVIL})])
    html = standalone(compose(studied([place]), look_inside=False))
    assert EVIL not in html
    assert "<img" not in html.split("</main>")[0]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    embedded_text = re.search(r'<script type="application/json" id="payload">(.*?)</script>', html, re.S)
    assert embedded_text is not None
    names = json.loads(embedded_text[1])["figures"]["confusion"]["views"]["fedavg"]["data"][0]["x"]
    assert tuple(names) == classes
    assert not any(
        "onload" in attributes or "onerror" in attributes for _, attributes in Reader(html).elements
    )


def test_clients_are_shown_by_name(tmp_path: Path) -> None:
    names = ["Zürich", "10", "9", "Bonn & Köln", "e", "f"]
    refused = ("refused", {"round": 1, "client": 3, "reason": "nan"})
    place = make(tmp_path, settings("fedavg"), names=names, events=[refused])
    page = compose(studied([place]), look_inside=False)
    tables = {table.id: table for section in page.sections for table in section.tables}
    assert {row[0].text for row in tables["all-clients"].rows} == set(names)
    assert tables["worst"].rows[0][0].text == "f", "the made-up accuracy falls with the number"
    assert "client: Bonn & Köln" in tables["events"].csv()
    figures = {figure.id: figure for section in page.sections for figure in section.figures}
    view = figures["counts"].views[""]
    assert list(dict.fromkeys(view["data"][0]["x"])) == names, "columns keep the order of the clients"
    assert view["layout"]["xaxis"]["type"] == "category"
    assert figures["spread"].views["home"]["data"][0]["text"] == names
    assert "client Bonn & Köln" in "\n".join(details(place))


def test_clients_without_names_stay_numbers(tmp_path: Path) -> None:
    page = compose(studied([make(tmp_path, settings("fedavg"))]), look_inside=False)
    tables = {table.id: table for section in page.sections for table in section.tables}
    assert sorted(row[0].number for row in tables["all-clients"].rows) == list(range(6))
    figures = {figure.id: figure for section in page.sections for figure in section.figures}
    view = figures["counts"].views[""]
    assert set(view["data"][0]["x"]) == set(range(6))
    assert "type" not in view["layout"]["xaxis"]


def test_embedded_json_cannot_leave_its_element() -> None:
    value = {"a": "</script><!-- & \u2028"}
    out = embedded(value)
    assert not set("<>&\u2028") & set(out)
    assert json.loads(out) == value


def test_large_studies_stay_small(tmp_path: Path) -> None:
    """Six methods, three seeds, 200 rounds, 100 clients."""
    names = tuple(map(str, range(10)))
    methods = ("fedavg", "fedprox", "fedlc", "scaffold", "map", "grpfed")
    places = [make(tmp_path, settings(m, 200, 100), s, classes=names) for m in methods for s in range(3)]
    target = tmp_path / "report.html"
    started = time.process_time()
    target.write_text(standalone(compose(studied(places), look_inside=False)), encoding="utf-8")
    assert time.process_time() - started < 20
    assert target.stat().st_size < 8_000_000


def test_many_clients_become_a_heat_map(tmp_path: Path) -> None:
    page = compose(studied([make(tmp_path, settings("fedavg", 2, 300))]), look_inside=False)
    counts = next(figure for section in page.sections for figure in section.figures if figure.id == "counts")
    assert counts.views[""]["data"][0]["type"] == "heatmap"
    few = compose(studied([make(tmp_path, settings("fedavg", 2, 200, "few"))]), look_inside=False)
    counts = next(figure for section in few.sections for figure in section.figures if figure.id == "counts")
    assert counts.views[""]["data"][0]["mode"] == "markers"


def test_several_settings_share_figures_with_a_list(tmp_path: Path) -> None:
    other = {
        method: settings(method).changed({"train.lr": 0.1, "name": f"{method}-fast"})
        for method in ("fedavg", "fedlc")
    }
    places = [make(tmp_path, settings(method)) for method in other] + [
        make(tmp_path, config) for config in other.values()
    ]
    page = compose(studied(places), look_inside=False)
    curves = next(figure for section in page.sections for figure in section.figures if figure.id == "curves")
    assert curves.controls[0].name == "setting"
    assert [label for _, label in curves.controls[0].options] == ["train.lr=0.05", "train.lr=0.1"]
    assert "0|global.accuracy|rounds" in curves.views
    assert standalone(page).count('class="headline"') == 2


# Looks


def _linear(colour: str) -> np.ndarray:
    share = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ linear / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


SIGHT = {  # Machado et al. (2009), severity 1
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_are_told_apart(sight: str) -> None:
    seen = [_lab(np.clip(SIGHT[sight] @ _linear(colour), 0, 1)) for colour in COLOURS]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 15


def test_colours_stand_out_from_white() -> None:
    luminance = [float(np.array([0.2126, 0.7152, 0.0722]) @ _linear(colour)) for colour in COLOURS]
    assert min(1.05 / (value + 0.05) for value in luminance) >= 3


def test_forty_methods_look_different() -> None:
    assert len({key[1:] for key in looks(map(str, range(40))).values()}) == 40


def test_thinning_keeps_both_ends() -> None:
    assert thin(5, 10) == [0, 1, 2, 3, 4]
    kept = thin(1000, 200)
    assert (kept[0], kept[-1], len(kept)) == (0, 999, 200)


# Real runs


def test_records_hold_what_the_page_needs(real: list[Path]) -> None:
    run = gather.read(real[0])
    assert run.census is not None
    assert np.array(run.census.train).sum(axis=1).tolist() == [
        len(part) for part in json.loads((real[0] / "partition.json").read_bytes())["content"]["train"]
    ]
    for before, after in zip(run.records, run.records[1:], strict=False):
        assert after["before.per_class"] == before["global.per_class"]
        assert "global.confusion" not in before
    last = run.records[-1]
    matrix = np.array(last["global.confusion"])
    assert np.diag(matrix) / matrix.sum(axis=1) == pytest.approx(last["global.per_class"])
    assert -1 <= last["update.cosine"] <= 1


def test_models_are_looked_into(real: list[Path], tmp_path: Path) -> None:
    from fedskew.report.models import look_into

    peeks, notes = look_into(studied(real))
    assert notes == []
    averaged, personal = peeks["", "fedavg"], peeks["", "grpfed"]
    assert averaged.features is not None
    points = np.array(averaged.features.points)
    assert points.shape == (300, 12)
    covariance = points.T @ points / len(points)
    assert covariance[0, 0] == pytest.approx(1)
    assert covariance == pytest.approx(np.diag(np.diag(covariance)), abs=1e-9)
    assert averaged.proxies is not None
    assert len(averaged.proxies.server) == 10
    assert (
        0
        <= min(personal.internals["discriminator accuracy"])
        <= max(personal.internals["discriminator accuracy"])
        <= 1
    )
    target = tmp_path / "new" / "report.html"
    write(real, target)
    ids = {figure["data-figure"] for figure in Reader(target.read_text(encoding="utf-8")).all("figure")}
    assert {"features", "proxies", "adapted", "internals"} <= ids
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_without_the_data_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    absent = settings("fedavg").changed({"data": {"name": "cifar10", "dir": str(tmp_path / "nothing")}})
    page = compose(studied([make(tmp_path, absent)]), look_inside=True)
    inside = next(section for section in page.sections if section.id == "inside")
    assert any(note.startswith("Models could not be looked into") for note in inside.notes)


# The command line


def invoke(*words: str) -> Result:
    from fedskew.cli import report, run  # noqa: F401  (they add their commands)
    from fedskew.cli.main import app

    return CliRunner().invoke(app, list(words))


def test_report_finds_runs_and_opens_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three_methods(tmp_path / "runs", 1)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)) or True)
    target = tmp_path / "page.html"
    done = invoke("report", str(tmp_path / "runs"), "-o", str(target), "--open")
    assert done.exit_code == 0, done.output
    assert str(target) in done.output.replace("\n", "")
    assert opened == [target.as_uri()]
    assert "3 methods" in target.read_text(encoding="utf-8")


def test_report_of_nothing_says_what_to_do(tmp_path: Path) -> None:
    failed = invoke("report", str(tmp_path / "nothing")).exception
    assert isinstance(failed, ConfigError)
    assert "`fedskew ls` lists the runs" in str(failed)


def test_watch_refuses_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = invoke("watch", "--port", str(taken.getsockname()[1]), "--out", str(tmp_path)).exception
    assert isinstance(failed, ConfigError)
    assert "Leave --port out" in str(failed)
