"""The command line: what it prints, what it exits with, and that a refused command leaves nothing behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fedskew.cli import main

Run = Callable[..., tuple[int, str, str]]
QUICK = ["-s", "train.rounds=2", "-s", "train.epochs=1"]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in an empty folder, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedskew", *words])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


def write(text: str, name: str = "c.toml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def files() -> set[str]:
    return {str(path) for path in Path().rglob("*") if path.name != "c.toml"}


GOOD = '[split]\nscheme = "labels"\nclients = 5\nper_client = 2\n'

WRONG: dict[str, tuple[str, Sequence[str], int, str]] = {
    # name: (file, further words, exit code, what the message must hold)
    "unknown table": ("[trian]\nlr = 1\n", (), 2, "Did you mean 'train'"),
    "unknown key": (GOOD + "[train]\nepoch = 1\n", (), 2, "Did you mean 'train.epochs'"),
    "a name of another library": (GOOD + "[train]\nlearning_rate = 1\n", (), 2, "Did you mean 'train.lr'"),
    "key without its table": (GOOD, ("-s", "lr=0.1"), 2, "Did you mean 'train.lr'"),
    "nothing like it": (GOOD + "[train]\nxyzzy = 1\n", (), 2, "unknown setting 'train.xyzzy'. Choices:"),
    "no seed": ("seeds = []\n" + GOOD, (), 2, "seeds"),
    "one seed": ("seeds = 0\n" + GOOD, (), 2, "seeds = 0: should be a list."),
    "column of labels": (GOOD + '[data]\nname = "csv"\npath = "x.csv"\n', (), 2, "needs the option label"),
    "personal model to measure": (GOOD + '[evaluate]\nalso = ["inherited"]\n', (), 2, "inherited"),
    "wrong type": (GOOD + '[train]\nlr = "fast"\n', (), 2, "train.lr"),
    "negative rate": (GOOD + "[train]\nlr = -1\n", (), 2, "greater than 0"),
    "no rounds": (GOOD + "[train]\nrounds = 0\n", (), 2, "train.rounds"),
    "participation": (GOOD + "[train]\nparticipation = 1.5\n", (), 2, "train.participation"),
    "momentum": (GOOD + "[train]\nmomentum = 1.0\n", (), 2, "train.momentum"),
    "not a number": (GOOD + "[train]\nlr = nan\n", (), 2, "train.lr"),
    "bad name": ('name = "../up"\n' + GOOD, (), 2, "[A-Za-z0-9]"),
    "bad seeds": ("seeds = [-1]\n" + GOOD, (), 2, "seeds"),
    "dtype": ('dtype = "float16"\n' + GOOD, (), 2, "dtype"),
    "engine": (GOOD + '[engine]\nname = "gpu"\n', (), 2, "engine.name"),
    "dataset": (GOOD + '[data]\nname = "mnits"\n', (), 2, "Did you mean 'mnist'"),
    "dataset option": (GOOD + '[data]\nname = "digits"\nsize = 3\n', (), 2, "size"),
    "scheme": ('[split]\nscheme = "diriclet"\n', (), 2, "Did you mean 'dirichlet'"),
    "scheme option": ('[split]\nscheme = "dirichlet"\nalpha = 0.1\nclients = 5\n', (), 2, "beta"),
    "scheme needs": ('[split]\nscheme = "dirichlet"\n', (), 2, "needs"),
    "indivisible": ('[split]\nscheme = "labels"\nclients = 7\nper_client = 2\n', (), 2, "14"),
    "too many clients": ('[split]\nscheme = "dirichlet"\nbeta = 1.0\nclients = 5000\n', (), 2, "5000"),
    "model": (GOOD + '[model]\nname = "mpl"\n', (), 2, "Did you mean 'mlp'"),
    "model shape": (GOOD + '[model]\nname = "fedabc-cnn"\n', (), 2, "32"),
    "method": (GOOD + '[method]\npreset = "fedacg"\n', (), 2, "Did you mean 'fedavg'"),
    "collision": (GOOD + '[method]\npreset = "fedlc+fedrs"\n', (), 2, "objective"),
    "part": (GOOD + "[method.Proximl]\nmu = 1\n", (), 2, "Did you mean 'Proximal'"),
    "part option": (GOOD + '[method]\npreset = "fedprox"\n[method.Proximal]\nnu = 1\n', (), 2, "mu"),
    "personal": (GOOD + '[method]\npersonal = "inherited"\n', (), 2, "inherited"),
    "not toml": ("name = \n", (), 2, "TOML"),
    "override form": (GOOD, ("-s", "train.lr"), 2, "key=value"),
    "override key": (GOOD, ("-s", "train.rate=1"), 2, "train.rate"),
    "override through a value": (GOOD, ("-s", "name.x=1"), 2, "name"),
    "seeds flag": (GOOD, ("--seeds", "a:b"), 2, "0:3"),
    "empty seeds": (GOOD, ("--seeds", "3:3"), 2, "0:3"),
    "partition file": ('[split]\nfile = "none.json"\n', (), 3, "none.json"),
    "data folder": (GOOD + '[data]\nname = "svhn"\ndir = "nowhere"\n', (), 3, "svhn"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_explained_and_leaves_nothing(
    name: str, call: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, words, expected, said = WRONG[name]
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    monkeypatch.setenv("FEDSKEW_OFFLINE", "1")
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    code, out, err = call("run", write(text), *words)
    assert code == expected, err
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err + out
    assert not files()


def test_a_missing_file_names_the_remedy(call: Run) -> None:
    code, _, err = call("run", "none.toml")
    assert code == 2
    assert "fedskew new" in err


def test_new_writes_what_runs(call: Run) -> None:
    assert call("new", "a.toml")[0] == 0
    code, out, err = call("run", "a.toml", *QUICK, "--seeds", "0:1", "--workers", "1")
    assert code == 0, err
    assert "fedlc" in out
    assert call("new", "a.toml")[0] == 2


def test_dry_run_prints_settings_and_writes_nothing(call: Run) -> None:
    code, out, _ = call("run", write(GOOD), "--dry-run")
    assert code == 0
    assert "per_client = 2" in out
    assert not files()


def test_compare_prints_one_row_a_method(call: Run) -> None:
    words = ("--methods", "fedavg,fedlc+fedprox", "--seeds", "0:2", *QUICK, "--json", "--workers", "1")
    code, out, err = call("compare", write(GOOD), *words)
    assert code == 0, err
    rows = json.loads(out[out.index("[") :])
    assert [row["method"] for row in rows] == ["fedavg", "fedlc+fedprox"]
    assert all(row["seeds"] == 2 for row in rows)


def test_settings_of_a_part_are_for_the_methods_that_have_it(call: Run) -> None:
    """Else the table would compare FedLC with itself under two names."""
    config = write(GOOD + "[method.CalibratedSoftmax]\ntau = 0.5\n")
    code, out, err = call("compare", config, "--methods", "fedavg,fedlc", "--dry-run")
    assert code == 0
    assert "fedavg is compared without CalibratedSoftmax, which it does not have" in err
    plain, calibrated = (tomllib.loads(text) for text in re.split('(?=^name = "run-)', out, flags=re.M)[1:])
    assert plain["method"] == {"preset": "fedavg"}
    assert calibrated["method"] == {"preset": "fedlc", "CalibratedSoftmax": {"tau": 0.5}}


def test_a_part_that_none_of_the_methods_has_is_added_to_all(call: Run) -> None:
    words = ("--methods", "fedavg,fedlc", "-s", "method.Proximal.mu=0.1", "--dry-run")
    code, out, err = call("compare", write(GOOD), *words)
    assert (code, out.count("[method.Proximal]"), "without" in err) == (0, 2, False)


def test_a_comparison_that_is_made_wider_keeps_its_engine(call: Run) -> None:
    words = ("compare", write(GOOD), "--methods", "fedavg", "--workers", "1", *QUICK)
    assert call(*words, "--seeds", "0:1")[0] == 0
    assert tomllib.loads(Path("runs/run-fedavg/0/config.toml").read_text())["engine"]["name"] != "auto"
    for number in range(1, 4):  # an engine that `auto` would not pick twice
        other = {"name": "vectorised", "backend": "autograd", "block": number}
        settings = [f"engine.{key}={value}" for key, value in other.items()]
        wide = [word for setting in settings for word in ("-s", setting)]
        assert call(*words, "-s", "name=own", "--seeds", f"{number}:{number + 1}", *wide)[0] == 0
        assert call(*words, "-s", "name=own", "--seeds", f"{number}:{number + 2}", "--resume")[0] == 0
        made = tomllib.loads(Path(f"runs/own-fedavg/{number + 1}/config.toml").read_text())["engine"]
        assert {key: made[key] for key in other} == other
        shutil.rmtree("runs/own-fedavg")


def test_a_failure_does_not_spoil_json(call: Run) -> None:
    code, out, err = call("run", write(GOOD), *QUICK, "--json", "--workers", "1", "-s", "train.lr=1e9")
    assert code == 4
    assert "failed: runs/run/0: training diverged" in err
    json.loads(out)


def test_a_report_without_a_global_test(call: Run) -> None:
    rows = "\n".join(f"{k % 2}.5,{k % 2},{k % 3},0" for k in range(60))
    write(f"a,kind,who,held\n{rows}\n", "t.csv")
    table = '[data]\nname = "csv"\npath = "t.csv"\nlabel = "kind"\nclient = "who"\ntest = "held"\n'
    config = write(table + '[split]\nscheme = "natural"\n')
    assert call("run", config, *QUICK, "--workers", "1")[0] == 0
    code, _, err = call("report", "runs", "-o", "page.html")
    assert (code, err) == (0, "")


def test_a_damaged_checkpoint_has_a_predecessor_on_the_command_line_too(call: Run) -> None:
    words = ("run", write(GOOD), "--workers", "1", "-s", "train.epochs=1")
    assert call(*words, "-s", "train.rounds=4")[0] == 0
    newest = max(Path("runs/run/0/checkpoints").iterdir())
    newest.write_text("")
    code, _, err = call("resume", "runs/run/0")
    assert code == 0, err
    assert call("show", "runs/run/0")[0] == 0


def test_nothing_to_resume_is_an_error(call: Run) -> None:
    Path("runs/empty").mkdir(parents=True)
    code, _, err = call("resume", "runs/empty")
    assert (code, "runs/empty: no run there" in err) == (2, True)


def test_a_file_with_a_mark_of_its_encoding_is_read(call: Run) -> None:
    assert call("run", write("\ufeff" + GOOD), "--dry-run")[0] == 0


def test_a_number_that_one_seed_does_not_have_is_null_in_json(call: Run) -> None:
    code, out, err = call("run", write(GOOD), *QUICK, "--seeds", "0", "--json", "--workers", "1")
    assert code == 0, err
    (row,) = json.loads(out[out.index("[") :], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert row["values"]["global.accuracy"]["std"] is None


@pytest.mark.parametrize("words", [("--methods", "fedavg,fedavg"), ("--methods", "fedavg", "--seeds", "0,0")])
def test_what_is_asked_for_twice_is_refused_before_it_is_begun(call: Run, words: tuple[str, ...]) -> None:
    code, _, err = call("compare", write(GOOD), *QUICK, *words)
    assert (code, "is asked for twice" in err) == (2, True)
    assert not files()


def test_a_second_run_of_the_same_name_is_refused(call: Run) -> None:
    config = write(GOOD)
    assert call("run", config, *QUICK, "--workers", "1")[0] == 0
    before = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
    code, _, err = call("run", config, *QUICK)
    assert code == 2
    assert "fedskew resume" in err
    assert before == {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}


def test_ls_and_show(call: Run) -> None:
    assert "no runs" in call("ls")[1]
    call("run", write(GOOD), *QUICK, "--workers", "1")
    code, out, _ = call("ls")
    assert code == 0
    assert re.search(r"run/0\s+fedavg\s+0\s+2/2", out)
    code, out, _ = call("show", "runs/run/0")
    assert code == 0
    assert "global.accuracy" in out


def test_the_resolved_configuration_runs_again_to_the_same_bytes(call: Run) -> None:
    call("run", write(GOOD), *QUICK, "--workers", "1")
    code, _, err = call("run", "runs/run/0/config.toml", "--out", "again", "--workers", "1")
    assert code == 0, err
    for name in ("metrics.jsonl", "clients.jsonl", "partition.json", "config.toml"):
        assert Path("runs/run/0", name).read_bytes() == Path("again/run/0", name).read_bytes()


@pytest.mark.parametrize(
    "words", [("methods",), ("methods", "--wide"), ("models",), ("datasets",), ("--help",)]
)
def test_lists(words: tuple[str, ...], call: Run) -> None:
    code, out, _ = call(*words)
    assert code == 0
    assert len(out.splitlines()) > 10


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("show", "A run's folder"),
        ("partition", "its [data] and [split] are used"),
        ("reproduce", "needs fedskew[paper]"),
    ],
)
def test_help_explains_arguments_and_keeps_brackets(command: str, words: str, call: Run) -> None:
    _, out, _ = call(command, "--help")
    assert words in " ".join(out.replace("│", " ").split())


def test_a_diverging_run_says_so(call: Run) -> None:
    code, out, err = call("run", write(GOOD), *QUICK, "-s", "train.lr=1e30", "--workers", "1")
    assert code == 4
    assert "diverged" in err
    assert "train.lr" in err
    assert "Traceback" not in err + out
    assert "diverged" in call("ls")[1]


def test_lists_and_config_errors_do_not_load_torch() -> None:
    for words in (["--help"], ["methods"], ["models"], ["datasets"], ["ls"], ["run", "none.toml"]):
        script = (
            "import sys; sys.argv = ['fedskew', *sys.argv[1:]]\n"
            "from fedskew.cli import main\n"
            "try: main()\nexcept SystemExit: pass\n"
            "assert 'torch' not in sys.modules and 'numpy' not in sys.modules, 'slow import'"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stderr)


def training(folder: Path, words: Sequence[str], names: Sequence[str]) -> subprocess.Popen[str]:
    """A command that trains in a session of its own, once each of its runs has a round behind it."""
    (folder / "c.toml").write_text(GOOD + "[train]\nrounds = 2000\nepochs = 1\n")
    running = subprocess.Popen(
        [sys.executable, "-m", "fedskew", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test run in the background ignores SIGINT, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    metrics = [folder / f"runs/{name}/0/metrics.jsonl" for name in names]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not all(one.exists() and one.stat().st_size for one in metrics):
        time.sleep(0.05)
    return running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_and_names_the_resume_command(tmp_path: Path, number: int) -> None:
    running = training(tmp_path, ("run", "c.toml", "--workers", "1"), ["run"])
    os.kill(running.pid, number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "fedskew resume runs/run" in out
    assert "Traceback" not in err


def test_an_interrupt_of_many_runs_shows_no_traceback(tmp_path: Path) -> None:
    words = ("compare", "c.toml", "--methods", "fedavg,fedlc", "--workers", "2")
    running = training(tmp_path, words, ["run-fedavg", "run-fedlc"])
    os.killpg(running.pid, signal.SIGINT)  # as a terminal interrupts every process
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "fedskew resume" in out
    assert "Traceback" not in err
