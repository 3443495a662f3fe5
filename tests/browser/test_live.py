"""The live page in a browser: it follows a run, keeps what was chosen, and says when the server is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from report_runs import add_rounds, make, settings
from visiting import until, visitor

from fedskew.report.watch import Watch, address, server
from fedskew.store.run import RunStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Visit = Callable[..., "Page"]


class Site(NamedTuple):
    """A running server."""

    address: str
    out: Path
    running: ThreadingHTTPServer


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    watch = Watch(tmp_path)
    with server(watch) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield Site(address(watch, running), tmp_path, running)
        running.shutdown()
        thread.join()


@pytest.fixture
def opened(site: Site, browser: Browser) -> Iterator[Visit]:
    """Pages that are closed before the server is, so that none finds it gone."""
    with visitor(browser) as visit:
        yield visit


LAST = "document.querySelector('[data-figure=\"curves\"] .plot').data?.at(-1).x.at(-1)"  # round on the axis


def test_a_new_round_appears_within_two_seconds(opened: Visit, site: Site) -> None:
    place = make(site.out, settings("fedavg"), rounds=3)
    page = opened(site.address)
    page.locator('[data-figure="curves"]').scroll_into_view_if_needed()
    until(page, f"{LAST} === 3")
    times = []
    with RunStore.open(place) as store:
        for number in range(3, 7):
            add_rounds(store, settings("fedavg"), 4, number, number + 1)
            written = time.monotonic()
            until(page, f"{LAST} === {number + 1}")
            times.append(time.monotonic() - written)
            until(page, f"document.querySelectorAll('#runs tr td')[3].innerText === '{number + 1}/12'")
    assert min(times) < 2, times


def test_ticking_compares(opened: Visit, site: Site) -> None:
    for method in ("fedavg", "fedlc", "scaffold"):
        make(site.out, settings(method))
    page = opened(site.address)
    assert page.locator("#runs input:checked").count() == 3
    page.uncheck('#runs tr[data-name="fedlc/0"] input')
    until(page, "!document.getElementById('main').textContent.includes('fedlc')")
    assert page.locator('[data-figure="curves"] [data-series]').all_inner_texts() == ["fedavg", "scaffold"]
    page.click('[data-tick="none"]')
    until(page, "document.getElementById('main').textContent.startsWith('Tick a run')")
    page.click('[data-tick="all"]')
    until(page, "document.getElementById('main').textContent.includes('fedlc')")


def test_what_was_chosen_stays_when_a_round_arrives(opened: Visit, site: Site) -> None:
    place = make(site.out, settings("fedavg"), rounds=8)
    make(site.out, settings("fedlc"))
    page = opened(site.address)
    page.check('[data-figure="curves"] input[value="bytes"]', force=True)
    page.click('[data-figure="curves"] [data-series="fedlc"]')
    page.locator("#table-summary th button").first.click()
    page.focus('[data-figure="curves"] [data-series="fedavg"]')
    with RunStore.open(place) as store:
        add_rounds(store, settings("fedavg"), 4, 8, 9)
    until(page, "document.querySelector('#runs').textContent.includes('9/12')")
    until(page, "document.querySelector('.notes').textContent.includes('the least has 9')")
    assert page.is_checked('[data-figure="curves"] input[value="bytes"]')
    assert page.get_attribute('[data-figure="curves"] [data-series="fedlc"]', "aria-pressed") == "false"
    assert page.locator("#table-summary th").first.get_attribute("aria-sort") == "ascending"
    until(page, "document.activeElement.dataset.series === 'fedavg'")


def test_names_with_tags_stay_names(opened: Visit, site: Site) -> None:
    evil = "<img src=x onerror=\"console.log('harm')\">"
    make(site.out, settings("fedavg"), classes=(evil, "b", "c"))
    page = opened(site.address)
    page.wait_for_timeout(500)
    assert page.locator("main img").count() == 0
    assert evil in page.locator("#table-worst").inner_text()


def test_it_says_that_no_round_is_finished_yet(opened: Visit, site: Site) -> None:
    make(site.out, settings("fedavg"), rounds=0)
    page = opened(site.address)
    assert "no run has finished a round" in page.locator("main .aside").inner_text()


@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing_serious(opened: Visit, site: Site, axe: str, width: int) -> None:
    for method in ("fedavg", "fedlc"):
        make(site.out, settings(method))
    page = opened(site.address, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(axe)
    found = page.evaluate("axe.run({ exclude: ['.plot > *'] })")
    assert [one["id"] for one in found["violations"] if one["impact"] in ("serious", "critical")] == []
