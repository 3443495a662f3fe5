"""A real browser: skipped where there is none, refused to be skipped with FEDSKEW_REQUIRE_BROWSER=1."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # the makers that other tests use too

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def absent(what: str) -> NoReturn:
    """Skips, unless the tests must not be skipped."""
    if os.environ.get("FEDSKEW_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{what}, and FEDSKEW_REQUIRE_BROWSER=1 forbids to skip")
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("playwright is not installed")
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        absent(f"no browser found ({', '.join(CHROMIUM)})")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core as `npm install --prefix .venv axe-core` lays it, or as FEDSKEW_AXE names it."""
    usual = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
    path = Path(os.environ.get("FEDSKEW_AXE", usual))
    if not path.is_file():
        absent(f"axe-core is not installed ({path})")
    return path.read_text(encoding="utf-8")


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens an address at a width; a message of the console or a request to elsewhere fails the test."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def visit(address: str, width: int = 1280, height: int = 900) -> Page:
        contexts.append(
            browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        )
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: complaints.extend(_foreign(request.url, address)))
        page.goto(address)
        page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


def _foreign(url: str, address: str) -> list[str]:
    own = address.rsplit("/", 1)[0]
    return [] if url.startswith((own, "data:", "blob:")) else [f"request: {url[:200]}"]
