"""The live page: who may read it, what it answers, and how soon it shows a new round."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from report_runs import add_rounds, make, settings

from fedskew.report.watch import HOST, Watch, address, server
from fedskew.store.run import RunStore


class Site(NamedTuple):
    """A running server and where its runs are."""

    watch: Watch
    port: int
    out: Path

    def ask(
        self, path: str, method: str = "GET", host: str | None = None, token: str | None = None
    ) -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection(HOST, self.port, timeout=30)
        name = f"{HOST}:{self.port}" if host is None else host
        connection.request(method, f"/{token or self.watch.token}/{path}", headers={"Host": name})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def json(self, path: str) -> Any:
        answer, content = self.ask(path)
        assert answer.status == 200
        return json.loads(content)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    watch = Watch(tmp_path / "runs")
    with server(watch) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield Site(watch, running.server_port, watch.out)
        running.shutdown()
        thread.join()


def test_it_listens_on_this_machine_only(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    with server(watch) as running:
        assert running.server_address[0] == "127.0.0.1"
        assert address(watch, running) == f"http://127.0.0.1:{running.server_port}/{watch.token}/"


def test_tokens_are_long_and_never_the_same(tmp_path: Path) -> None:
    tokens = {Watch(tmp_path).token for _ in range(50)}
    assert len(tokens) == 50
    assert min(map(len, tokens)) >= 32


@pytest.mark.parametrize("token", ["wrong", "..", "%2e%2e", "%fc"])
def test_without_the_token_there_is_nothing(site: Site, token: str) -> None:
    make(site.out, settings("fedavg"))
    answer, content = site.ask("runs.json", token=token)
    assert answer.status == 404
    assert b"fedavg" not in content


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:80", ""])
def test_another_name_for_this_machine_is_refused(site: Site, host: str) -> None:
    answer, _ = site.ask("runs.json", host=host)
    assert answer.status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_only_reading_is_possible(site: Site, method: str) -> None:
    answer, _ = site.ask("runs.json", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["", "runs.json", "report.js", "nothing"])
def test_every_answer_has_a_strict_policy(site: Site, path: str) -> None:
    answer, _ = site.ask(path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; " in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"  # the token is in the address


def test_the_page_has_no_inline_script(site: Site) -> None:
    _, content = site.ask("")
    for tag in content.decode().split("<script")[1:]:
        assert tag.startswith(' src="')


def test_runs_are_listed_with_their_state(site: Site) -> None:
    make(site.out, settings("fedavg"))
    make(site.out, settings("fedlc"), rounds=5)
    rows = site.json("runs.json")["runs"]
    assert [(row["name"], row["rounds"], row["state"]) for row in rows] == [
        ("fedavg/0", "12/12", "complete"),
        ("fedlc/0", "5/12", "resumable"),
    ]
    with RunStore.open(site.out / "fedlc" / "0"):
        assert site.json("runs.json")["runs"][1]["state"] == "running"


def test_the_report_is_about_the_ticked_runs(site: Site) -> None:
    for method in ("fedavg", "fedlc", "scaffold"):
        make(site.out, settings(method))
    report = site.json("report.json?run=fedavg/0&run=scaffold/0&run=fedavg/0")
    labels = {
        trace["name"] for trace in report["figures"]["curves"]["views"]["global.accuracy|rounds"]["data"]
    }
    assert labels == {"fedavg", "scaffold"}
    assert "scaffold" in report["html"]
    assert "fedlc" not in report["html"]


@pytest.mark.parametrize("name", ["../secret/x/0", "/etc", "fedavg/0/../../../secret/x/0", "nothing"])
def test_only_listed_runs_are_read(site: Site, name: str) -> None:
    make(site.out, settings("fedavg"))
    make(site.out.parent / "secret", settings("fedavg", name="x"))
    assert "problem" in site.json(f"report.json?run={name}")


def test_names_are_escaped(site: Site) -> None:
    evil = "<img src=x onerror=alert(1)>"
    make(site.out, settings("fedavg"), classes=(evil, "b", "c"))
    report = site.json("report.json?run=fedavg/0")
    assert evil not in report["html"]
    assert "&lt;img src=x" in report["html"]


def test_a_damaged_run_does_not_hide_the_others(site: Site) -> None:
    make(site.out, settings("fedavg"))
    broken = make(site.out, settings("fedlc"))
    (broken / "metrics.jsonl").write_bytes(b"{}\n")
    rows = {row["name"]: row["state"] for row in site.json("runs.json")["runs"]}
    assert rows["fedavg/0"] == "complete"
    assert rows["fedlc/0"].startswith("unreadable")
    assert "problem" in site.json("report.json?run=fedlc/0")


def test_a_new_round_is_seen_at_once(site: Site) -> None:
    place = make(site.out, settings("fedavg"), rounds=3)
    before = site.json("runs.json")["runs"][0]
    site.json("report.json?run=fedavg/0")  # what is remembered must not hide what is new
    with RunStore.open(place) as store:
        add_rounds(store, settings("fedavg"), 4, 3, 4)
    started = time.monotonic()
    after = site.json("runs.json")["runs"][0]
    report = site.json("report.json?run=fedavg/0")
    assert (before["rounds"], after["rounds"]) == ("3/12", "4/12")
    assert before["stamp"] != after["stamp"]
    assert report["figures"]["curves"]["views"]["global.accuracy|rounds"]["data"][-1]["x"] == [1, 2, 3, 4]
    assert time.monotonic() - started < 5


def test_what_has_not_changed_is_not_read_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    make(site.out, settings("fedavg"))
    first = site.json("runs.json")
    monkeypatch.setattr("fedskew.listing.row", lambda place, out: pytest.fail("read again"))
    assert site.json("runs.json") == first


def test_nothing_is_written(site: Site) -> None:
    make(site.out, settings("fedavg"))

    def snapshot() -> dict[str, tuple[int, int]]:
        found = (Path(folder) / name for folder, _, names in os.walk(site.out) for name in names)
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = snapshot()
    for path in ("", "runs.json", "report.json?run=fedavg/0", "report.css"):
        site.ask(path)
    assert snapshot() == before
