"""A real browser: skipped where there is none, refused to be skipped with FEDSKEW_REQUIRE_BROWSER=1."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from visiting import visitor

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
    """Pages of one test."""
    with visitor(browser) as visit:
        yield visit


@pytest.fixture(scope="module")
def opened_once(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Pages that the tests of a module share."""
    with visitor(browser) as visit:
        yield visit
