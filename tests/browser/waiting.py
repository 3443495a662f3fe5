"""Waiting for a page whose policy forbids to evaluate text, as Playwright's own waiting would."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def until(page: Page, condition: str, seconds: float = 30) -> None:
    """Returns once the expression is true in the page."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(20)
