"""Visits to pages whose policy forbids to evaluate text, as Playwright's own waiting would."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


def until(page: Page, condition: str, seconds: float = 30) -> None:
    """Returns once the expression is true in the page."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(20)


@contextmanager
def visitor(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens an address at a width; a message of the console or a request to elsewhere is an error in the end."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def visit(address: str, width: int = 1280, height: int = 900) -> Page:
        contexts.append(browser.new_context(viewport={"width": width, "height": height}))
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
