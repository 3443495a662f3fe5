"""The documentation is built without a warning, its links lead somewhere, and its commands run."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from command import fedskew

from fedskew.catalogue import METHODS
from fedskew.cli import main as _main  # noqa: F401  (loads the commands' home)
from fedskew.cli.main import app
from fedskew.data.partition import Labels
from fedskew.engines.choose import Choice
from fedskew.experiment import Experiment
from fedskew.method import Method
from fedskew.parts.aggregates import Mean
from fedskew.privacy import Privacy

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
RUN = [ROOT / "README.md", DOCS / "index.md", DOCS / "tutorial.md", DOCS / "howto.md"]
FENCE = re.compile(r"(<!-- not run: (?P<why>[^>]*) -->\n)?```(?P<kind>[^\n]*)\n(?P<body>.*?)\n```", re.DOTALL)
TRAINS = ("run", "compare", "resume", "demo")


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    caption: str  # a file of this name
    body: str
    why_not: str  # why it is not run


def blocks(page: Path) -> Iterator[Block]:
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        lines = found["body"].splitlines()
        options = [line for line in lines if re.match(r":\w+:", line)]
        caption = next(
            (line.split(":", 2)[2].strip() for line in options if line.startswith(":caption:")), ""
        )
        body = "\n".join(lines[len(options) :]).strip() + "\n"
        yield Block(found["kind"].strip(), caption, body, found["why"] or "")


def commands(block: Block) -> list[list[str]]:
    lines = block.body.splitlines()
    assert all(line.startswith("$ ") for line in lines if line), (
        f"a console block holds commands only: {lines}"
    )
    return [shlex.split(line.removeprefix("$ ")) for line in lines if line]


def run(words: list[str]) -> None:
    """One command of a page, with few rounds and one process."""
    tool, *rest = words
    if tool == "python":
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *rest], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return
    assert tool == "fedskew", f"a page shows {tool}, which this test does not run"
    small = ["--workers", "1"] if rest[0] in TRAINS else []
    small += ["-s", "train.rounds=2"] if rest[0] in ("run", "compare") else []
    said = fedskew(*rest, *small)
    assert said.code == 0, (words, said.out, said.err)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_every_command_shown_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDSKEW_OFFLINE", "1")
    many = 0
    for block in blocks(page):
        if block.caption:
            Path(block.caption).write_text(block.body, encoding="utf-8")
        if block.kind == "console" and not block.why_not:
            for words in commands(block):
                run(words)
                many += 1
    assert many


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_are_named_exist(page: Path) -> None:
    fedskew("--version")  # adds the commands
    known = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    known |= {group.name for group in app.registered_groups if group.name}
    named = re.findall(r"(?:`|\$ )fedskew ([a-z][a-z-]*)", page.read_text(encoding="utf-8"))
    assert set(named) <= known, f"{page.name} names commands that do not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        place = page.parent / file if file else page
        assert place.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(place), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def test_sphinx_has_nothing_to_say(tmp_path: Path) -> None:
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="the extra `docs` is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tutorial.html").exists()


def tool(name: str = "readme") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_is_up_to_date() -> None:
    """Examples, methods and speed are as `python tools/readme.py --no-demo` writes them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tool().filled(text, tool().generated()) == text
    assert (ROOT / "examples" / "quick_start.py").read_text(encoding="utf-8").strip() in text


def test_the_pages_about_digits_are_made_of_their_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    first, second = tool("digits"), tool("digits_why")
    results = ROOT / "results"
    assert (DOCS / "digits.md").read_text("utf-8") == first.page(first.read_csv(results / "digits.csv"))
    assert (DOCS / "digits-why.md").read_text("utf-8") == second.page(results / "digits_why.csv")


def test_the_readme_begins_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = next(block for block in blocks(ROOT / "README.md"))
    assert [line.split("#")[0].split() for line in first.body.splitlines()] == [
        ["make", "demo"],
        ["make", "test"],
    ]
    assert text.index("make demo") < 700


def test_a_readme_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no part x"):
        tool().filled("nothing", {"x": "y"})


def test_measured_speed_is_shown_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tool()
    monkeypatch.setattr(module, "BENCH", tmp_path / "bench.json")
    assert module.speed() == module.NOT_MEASURED
    module.BENCH.write_text(
        json.dumps({"rows": [{"what": "a", "seconds": 1.23456}, {"what": "b", "peer": "x"}]})
    )
    assert module.speed().splitlines()[2:] == ["| a | 1.23 |  |", "| b |  | x |"]


def test_the_demo_of_the_readme_is_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is pasted is what the command prints, without progress lines."""
    module = tool()
    printed = "Digits over 20 clients\ntraining 100 %  1/1 rounds\n\n\n table  \n"
    done = subprocess.CompletedProcess([], 0, stdout=printed)
    monkeypatch.setattr(module.subprocess, "run", lambda *words, **options: done)
    assert module.demo() == "```text\nDigits over 20 clients\n\n table\n```"


def test_every_number_of_a_run_is_explained() -> None:
    plan = Experiment(split=Labels(per_client=2, clients=5), rounds=1, novel=0.2, engine=Choice("serial"))
    plans = [
        *(plan.using(method) for method in ("fedphp", "grpfed", "fedper")),
        replace(plan, method=Method(aggregate=Mean("uniform")), privacy=Privacy("central")),
    ]
    described = re.findall(r"`([a-zA-Z][\w.]+)`", (DOCS / "metrics.md").read_text(encoding="utf-8"))
    for one in plans:
        with one.session(0) as session:
            (step,) = session.rounds()
        models = session.feed.algorithm.method.home, "trained"
        for key in step.record:
            kind, *names = key.split(".")
            plain = f"{kind}.PART.NAME" if kind in ("state", "client") else key
            assert (f"personal.{names[-1]}" if names[:1] == ["trained"] else plain) in described, key
        for key in step.clients:
            assert key.replace(key.split(".")[0], "MODEL") in described or key in described, key
            assert "." not in key or key.split(".")[0] in models


def test_every_paper_is_listed() -> None:
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    missing = {f"{one.paper} {one.year}." for one in METHODS.values() if one.paper} - set(
        re.findall(r"^- ([^*]*?\.) ", text, re.MULTILINE)
    )
    assert not missing
