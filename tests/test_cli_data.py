"""data ls, get, check, path and doctor; compare that is continued, and compare that shows how far it is."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import data_makers as make
import pytest
from command import fedskew, on_a_terminal, works
from rich.console import Console

from fedskew import failures, parallel, runs
from fedskew.cli import screen, training
from fedskew.config import load
from fedskew.errors import DiskError
from fedskew.kernels import build
from fedskew.store.reader import RunReader
from fedskew.store.run import RunStore

SMALL = """
[split]
scheme = "labels"
clients = 5
per_client = 2
[train]
rounds = 2
epochs = 1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDSKEW_OFFLINE", "1")
    Path("c.toml").write_text(SMALL, encoding="utf-8")
    return tmp_path


def test_ls_says_what_is_here(here: Path) -> None:
    make.write_leaf(here / "data" / "femnist")
    lines = {
        line.split()[0]: line for line in works("data", "ls", "--dir", "data").splitlines() if line.strip()
    }
    assert "embedded" in lines["digits"]
    assert str(Path("data", "femnist")) in lines["femnist"]
    assert "absent" in lines["svhn"]
    assert "yours" in lines["csv"]
    assert "label" in lines["csv"]


def test_get_and_check_and_path(here: Path) -> None:
    make.write_leaf(here / "data" / "femnist")
    said = works("data", "get", "femnist", "--dir", "data")
    assert "20 training and 20 test examples of 1x28x28 numbers in 62 classes" in said
    said = works("data", "check", "femnist", "--dir", "data")
    assert "4 natural clients" in said
    assert said.count("sha256 ") == 2
    files = works("data", "path", "femnist", "--dir", "data").split()
    assert len(files) == 2
    assert all(Path(file).is_file() for file in files)
    assert works("data", "path", "digits") == ""


def test_own_data_are_checked_by_their_configuration(here: Path) -> None:
    Path("p.csv").write_text("a,b,what\n" + "".join(f"{i},{-i},{'xy'[i % 2]}\n" for i in range(20)))
    Path("own.toml").write_text('[data]\nname = "csv"\npath = "p.csv"\nlabel = "what"\n')
    said = works("data", "check", "own.toml")
    assert "x " in said
    assert "csv: examples of 2 numbers, no owners" in said
    assert works("data", "path", "own.toml").strip() == str(Path("p.csv").resolve())


def test_own_data_lie_beside_their_configuration(here: Path) -> None:
    Path("deep").mkdir()
    Path("deep/p.csv").write_text("a,what\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(20)))
    Path("deep/own.toml").write_text('[data]\nname = "csv"\npath = "p.csv"\nlabel = "what"\n')
    assert works("data", "path", "deep/own.toml").strip() == str(Path("deep/p.csv").resolve())


def test_a_comparison_with_one_wrong_method_begins_nothing(here: Path) -> None:
    works("new", "e.toml")
    for methods in ("fedavg,fedls", "fedavg,fedlc+fedrs"):
        assert fedskew("compare", "e.toml", "--methods", methods).code == 2
    assert not Path("runs").exists()


def test_a_dry_run_looks_at_the_data(here: Path) -> None:
    works("new", "e.toml")
    assert "name = " in works("run", "e.toml", "--dry-run")
    done = fedskew("run", "e.toml", "--dry-run", "-s", "data.name=csvv")
    assert (done.code, "csvv" in done.err) == (2, True)
    missing = fedskew(
        *("run", "e.toml", "--dry-run", "-s", "data.name=csv"),
        *("-s", "data.path=none.csv", "-s", "data.label=x"),
    )
    assert (missing.code, "none.csv" in missing.err) == (3, True)


@pytest.mark.parametrize(
    ("words", "code", "holds"),
    [
        (("data", "get", "minst"), 2, "Did you mean 'mnist'"),
        (("data", "get", "svhn"), 3, "not found"),
        (("data", "check", "svhn"), 3, "not found"),
        (("data", "path", "none.toml"), 2, "no such file"),
        (("doctor", "none.toml"), 2, "no such file"),
    ],
)
def test_errors_have_the_exit_code_of_their_kind(
    words: tuple[str, ...], code: int, holds: str, here: Path
) -> None:
    done = fedskew(*words)
    assert (done.code, holds in done.err) == (code, True), done
    assert "Traceback" not in done.err


def test_progress_is_a_bar_on_a_terminal_and_nothing_elsewhere(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.write_leaf(here / "data" / "femnist")
    assert fedskew("data", "check", "femnist", "--dir", "data").err == ""
    shown = on_a_terminal()
    monkeypatch.setattr("fedskew.cli.data.errors", shown)
    works("data", "check", "femnist", "--dir", "data")
    assert isinstance(shown.file, io.StringIO)
    assert "reading femnist" in shown.file.getvalue()


def test_doctor_warns_before_a_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "status", lambda: "compiled for a test")
    alone = ("-s", "split.per_client=1", "-s", "split.clients=10")
    said = works("doctor", "c.toml", *alone, "-s", "method.preset=fedlc")
    assert "hold one label" in said
    assert "nothing to warn of" in works("doctor", "c.toml")
    assert "engines: serial, vectorised, pool" in said
    assert "native kernels: compiled for a test." in said
    absent = fedskew("doctor", "c.toml", "-s", "engine.device=cuda")
    assert (absent.code, "torch cannot use it here" in absent.err) == (2, True)
    assert not Path("runs").exists()


def test_compare_is_continued_and_completed(here: Path) -> None:
    words = ("compare", "c.toml", "--methods", "fedavg,fedlc", "--workers", "1")
    works(*words, "--seeds", "0:1")
    before = {p: p.read_bytes() for p in Path("runs").rglob("metrics.jsonl")}
    refused = fedskew(*words, "--seeds", "0:2")
    assert refused.code == 2
    assert "already holds a run" in refused.err
    works(*words, "--seeds", "0:2", "--resume")
    assert {str(p.parent) for p in Path("runs").rglob("metrics.jsonl")} == {
        f"runs/run-{method}/{seed}" for method in ("fedavg", "fedlc") for seed in (0, 1)
    }
    assert before == {p: p.read_bytes() for p in before}
    for way in (("--resume",), (), ("--dry-run",)):
        other = fedskew(*words, *way, "--seeds", "0:2", "-s", "train.lr=0.1")
        assert other.code == 2
        assert "holds a run with other settings (train.lr = 0.05, not 0.1)" in other.err
        assert "another name" in other.err
    assert fedskew(*words, "--dry-run").code == 2, "it is there"
    works(*words, "--dry-run", "--resume")
    twice = fedskew("compare", "c.toml", "--methods", "fedova,fedova", "--dry-run")
    assert (twice.code, "is asked for twice" in twice.err) == (2, True)
    spaced = works("compare", "c.toml", "--methods", "fedlc + fedprox", "--dry-run", "--seeds", "3,4")
    assert 'name = "run-fedlc+fedprox"' in spaced
    assert "seeds = [\n    3,\n    4,\n]" in spaced


def test_compare_takes_up_only_what_failed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("compare", "c.toml", "--methods", "fedavg,fedlc", "--seeds", "0:2", "--workers", "1")
    broken, whole = Path("runs/run-fedlc/1"), runs.carry_on

    def fails(place: Path, on_round: runs.OnRound | None = None) -> object:
        if place == broken:
            raise DiskError("the disk is full")
        return whole(place, on_round)

    with monkeypatch.context() as patch:
        patch.setattr(runs, "carry_on", fails)
        done = fedskew(*words)
    assert done.code == DiskError.exit_code
    assert f"failed: {broken}: the disk is full" in done.out
    assert "fedavg" in done.out, "the table of the others is shown all the same"
    assert failures.why(broken) == "the disk is full"
    assert failures.why(Path("runs/run-fedlc/0")) is None
    said = works(*words, "--failed")
    assert "2/2 rounds" in said
    assert "fedavg" not in said
    assert runs.rounds_left(broken) == 0
    assert failures.why(broken) is None
    assert "none of these runs has failed" in works(*words, "--failed")


def test_a_diverged_run_counts_as_failed(here: Path) -> None:
    words = ("compare", "c.toml", "--methods", "fedavg", "--workers", "1", "-s", "train.lr=1e30")
    assert fedskew(*words).code == 4
    place = Path("runs/run-fedavg/0")
    assert "diverged" in (failures.why(place) or "")
    kinds = [event["event"] for event in RunReader(place).events()]
    assert kinds.count("diverged") == 1
    assert "failed" not in kinds
    assert fedskew(*words, "--failed").code == 4


def test_a_note_about_a_run_that_is_held_is_dropped(here: Path) -> None:
    works("run", "c.toml", "--workers", "1")
    place = Path("runs/run/0")
    with RunStore.open(place):
        failures.note(place, "failed", {"why": "x"})
    assert failures.why(place) is None


@pytest.mark.slow
def test_a_killed_worker_costs_its_run_alone(here: Path) -> None:
    """The process of one run is killed: the other ends, the table is printed, the dead one can be resumed."""
    Path("c.toml").write_text(SMALL.replace("rounds = 2", "rounds = 400"), encoding="utf-8")
    short = ("-s", "train.participation=0.2", "-s", "evaluate.every=400", "-s", "evaluate.personal=0")
    words = ["compare", "c.toml", "--methods", "fedavg,fedlc", "--workers", "2", *short]
    place = Path("runs/run-fedlc/0")
    with subprocess.Popen(
        [sys.executable, "-m", "fedskew", *words], stdout=subprocess.PIPE, text=True
    ) as running:
        while running.poll() is None and not _has_begun(place):
            time.sleep(0.02)
        os.kill(json.loads((place / "lock").read_text())["pid"], signal.SIGKILL)
        out, _ = running.communicate()
    assert running.returncode == 1
    assert "its process ended unexpectedly" in out
    assert runs.rounds_left(Path("runs/run-fedavg/0")) == 0
    assert runs.rounds_left(place) > 0
    assert "unexpectedly" in (failures.why(place) or "")


def _has_begun(place: Path) -> bool:
    return (place / "metrics.jsonl").exists() and (place / "metrics.jsonl").stat().st_size > 0


def test_news_come_round_by_round_with_one_worker(here: Path) -> None:
    place = runs.begin(load(Path("c.toml")), 0, Path("runs"))
    seen: list[tuple[int, int]] = []

    def tell(news: parallel.News) -> None:
        seen.append((news.done, len(RunReader(place).metrics(live=True))))

    parallel.follow([place], tell, workers=1)
    assert seen == [(1, 1), (2, 2)], "told while it runs, not at the end"


def test_the_terminal_shows_one_line_and_the_table_so_far(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = on_a_terminal()
    for module in (screen, training):
        monkeypatch.setattr(module, "console", shown)
    monkeypatch.setattr(screen, "REDRAW", 0.0)
    works("compare", "c.toml", "--methods", "fedavg,fedlc", "--workers", "1")
    assert isinstance(shown.file, io.StringIO)
    text = shown.file.getvalue()
    assert "complete so far" in text
    assert "4/4 rounds" in text
    assert text.count("mean of all 2 rounds") == 1


def test_progress_that_is_faster_than_the_eye_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_a_terminal()
    assert isinstance(shown.file, io.StringIO)
    monkeypatch.setattr(screen, "console", shown)
    with screen.Progress("training", 1000) as progress:
        assert "0/1000 rounds" in shown.file.getvalue()
        for _ in range(500):
            progress.advance("a run")
    assert shown.file.getvalue().count("rounds") <= 3


def test_progress_of_rounds_that_are_not_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _told([10, 20], monkeypatch) == ["table  17 %  2/3 rounds  1:40 left  short"]


def test_a_long_first_round_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _told([60], monkeypatch) == ["table   8 %  1/3 rounds  11:00 left  short"]


def _told(seconds: list[int], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is printed if a round of weight 1 out of 12 ends at each of these times."""
    clock = iter([0, *seconds])
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    shown = Console(file=io.StringIO(), width=120)
    with screen.Progress("table", 3, shown, weight=12.0) as progress:
        for _ in seconds:
            progress.advance("short", 1.0)
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue().splitlines()


def test_compare_over_several_skews_has_a_table_for_each(here: Path) -> None:
    words = ("compare", "c.toml", "--methods", "fedavg,fedlc", "--workers", "1")
    said = works(*words, "--over", "split.per_client=2,4")
    assert said.index("split.per_client=2:") < said.index("split.per_client=4:")
    assert said.count("mean of all 2 rounds") == 2
    names = sorted(str(path.parent.relative_to("runs")) for path in Path("runs").rglob("metrics.jsonl"))
    assert names == sorted(f"run-{m}-per_client{n}/0" for m in ("fedavg", "fedlc") for n in (2, 4))
    rows = json.loads(works("resume", "runs", "--json", "--workers", "1"))
    assert [(row["setting"], row["method"]) for row in rows][:2] == [
        ("split.per_client=2", "fedavg"),
        ("split.per_client=2", "fedlc"),
    ]
    assert {row["seeds"] for row in rows} == {1}, "runs of different settings are not put into one mean"


def test_compare_over_lists(here: Path) -> None:
    words = ("compare", "c.toml", "--methods", "fedavg", "--workers", "1")
    works(*words, "--over", "model.hidden=[4],[4, 4]", "--seeds", "0")
    names = sorted(path.parent.name for path in Path("runs").rglob("0") if path.is_dir())
    assert names == ["run-fedavg-hidden4", "run-fedavg-hidden4-4"]


@pytest.mark.parametrize("over", ["split.per_client", "split.per_client=", "=3"])
def test_over_without_values_is_refused(over: str, here: Path) -> None:
    done = fedskew("compare", "c.toml", "--methods", "fedavg", "--over", over)
    assert done.code == 2
    assert "--over split.beta=0.1,0.5" in done.err
    assert not Path("runs").exists()


def test_names_of_classes_stand_as_they_are(here: Path) -> None:
    names = ["[blue]", "[/x]"]
    Path("p.csv").write_text("a,what\n" + "".join(f"{i},{names[i % 2]}\n" for i in range(20)))
    Path("own.toml").write_text('[data]\nname = "csv"\npath = "p.csv"\nlabel = "what"\n')
    said = works("data", "check", "own.toml")
    assert all(name in said for name in names)
