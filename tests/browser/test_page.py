"""The report as a reader meets it: it opens, every figure shows something, everything that can be pressed works."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from report_runs import make, settings
from visiting import until

from fedskew import runs
from fedskew.config import parse
from fedskew.report.page import write

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]
MARKS = ".overplot path, .overplot image"  # what traces draw, axes not counted


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of five methods of which two were really trained, so that every figure is there."""
    out = tmp_path_factory.mktemp("runs")
    table = {
        "split": {"scheme": "labels", "clients": 5, "per_client": 4},
        "train": {"rounds": 12, "epochs": 1, "participation": 0.6},
        "evaluate": {"every": 1, "personal": 2},
        "engine": {"name": "serial"},
    }
    places = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        for method in ("fedavg", "grpfed", "map"):
            config = parse({**table, "name": method, "method": {"preset": method}}, "a test")
            for seed in (0, 1):
                places.append(runs.begin(config, seed, out))
                runs.carry_on(places[-1])
    page = out / "report.html"
    write(places, page)
    return page.as_uri()


@pytest.fixture(scope="session")
def many_pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six seeds of made-up runs: with a test and a critical-difference diagram."""
    out = tmp_path_factory.mktemp("pairs")
    methods = ("fedavg", "fedlc", "scaffold")
    write([make(out, settings(m), seed) for m in methods for seed in range(6)], out / "report.html")
    return (out / "report.html").as_uri()


@pytest.fixture(scope="module")
def desktop(opened_once: Visit, address: str) -> Page:
    """The page on a large screen; tests leave it as they like."""
    return opened_once(address)


@pytest.fixture(scope="module")
def phone(opened_once: Visit, address: str) -> Page:
    """The page on a small screen."""
    return opened_once(address, 360, 740)


def figures(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all("[data-figure]", "all => all.map(f => f.dataset.figure)")
    return found


def marks(page: Page, figure: str) -> int:
    return page.locator(f'[data-figure="{figure}"]').locator(MARKS).count()


def drawn(page: Page, figure: str) -> str:
    """What a figure shows, as text that changes when the figure does."""
    return page.locator(f'[data-figure="{figure}"] .plot .main-svg').first.inner_html()


def test_every_figure_has_marks(desktop: Page) -> None:
    page = desktop
    found = figures(page)
    assert {
        "result",
        "lead",
        "counts",
        "curves",
        "per-class",
        "groups",
        "confusion",
        "drift",
        "spread",
    } <= set(found)
    assert {"features", "proxies", "adapted", "internals"} <= set(found)
    assert {name: marks(page, name) for name in found if not marks(page, name)} == {}


def test_six_pairs_have_a_diagram_and_a_test(opened: Visit, many_pairs: str) -> None:
    page = opened(many_pairs)
    assert marks(page, "ranks") > 0
    assert "after Holm" in page.locator(".verdict").inner_text()


def test_every_choice_draws_something_else(desktop: Page) -> None:
    page = desktop
    measures = page.locator('[data-figure="curves"] input[data-control="metric"]')
    assert measures.count() >= 5
    seen = set()
    for value in ("rounds", "bytes", "seconds"):
        page.check(f'[data-figure="curves"] input[value="{value}"]', force=True)
        for i in range(measures.count()):
            measures.nth(i).check(force=True)
            seen.add(drawn(page, "curves"))
    assert len(seen) == 3 * measures.count()


def test_the_slider_moves_through_rounds_by_keyboard(desktop: Page) -> None:
    page = desktop
    slider = page.locator('[data-figure="per-class"] input[type="range"]')
    output = page.locator('[data-figure="per-class"] output')
    first, before = output.inner_text(), drawn(page, "per-class")
    slider.focus()
    page.keyboard.press("Home")
    assert output.inner_text() != first
    assert drawn(page, "per-class") != before
    assert slider.get_attribute("aria-valuetext") == output.inner_text()


def test_a_list_chooses_another_method(desktop: Page) -> None:
    page = desktop
    before = drawn(page, "confusion")
    page.select_option('[data-figure="confusion"] select', label="map")
    assert drawn(page, "confusion") != before


def test_a_legend_entry_hides_its_method_everywhere(desktop: Page) -> None:
    page = desktop
    before = {name: marks(page, name) for name in ("curves", "drift")}
    entry = page.locator('[data-figure="curves"] [data-series="map"]')
    entry.focus()
    page.keyboard.press("Enter")
    assert entry.get_attribute("aria-pressed") == "false"
    until(page, "page.due.size === 0")
    assert all(marks(page, name) < count for name, count in before.items())
    entry.click()
    until(page, "page.due.size === 0")
    assert {name: marks(page, name) for name in before} == before


def test_headings_sort(desktop: Page) -> None:
    page = desktop
    table = page.locator("#table-all-clients")
    heading = table.locator("th button").filter(has_text="examples")

    def column() -> list[float]:
        return [float(value) for value in table.locator("tbody tr td:nth-child(2)").all_inner_texts()]

    values = sorted(column())
    heading.click()
    assert column() == values
    assert table.locator("th").nth(1).get_attribute("aria-sort") == "ascending"
    heading.click()
    assert column() == values[::-1]


def test_the_command_is_copied(desktop: Page) -> None:
    page = desktop
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator("[data-copy]").first
    button.click()
    until(page, "document.querySelector('[data-copy]').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".command code").first.inner_text()


def test_tables_and_figures_are_saved(desktop: Page, tmp_path: Path) -> None:
    page = desktop
    saved = {}
    for name, selector in {
        "table": '#table-summary a[download$=".csv"]',
        "latex": '#table-summary a[download$=".tex"]',
        "csv": '[data-figure="curves"] [data-save="csv"]',
        "bars": '[data-figure="groups"] [data-save="csv"]',
        "svg": '[data-figure="curves"] [data-save="svg"]',
    }.items():
        with page.expect_download() as waiting:
            page.click(selector)
        waiting.value.save_as(tmp_path / name)
        saved[name] = (tmp_path / name).read_text(encoding="utf-8")
    rows = list(csv.DictReader(saved["table"].splitlines()))
    assert {row["method"] for row in rows} == {"fedavg", "grpfed", "map"}
    assert saved["latex"].startswith(r"\begin{tabular}")
    series, *axes = next(csv.reader(saved["csv"].splitlines()))
    assert series == "series"
    assert len(axes) == 2
    assert not {"x", "y"} & set(axes), "columns are named as the axes are"
    bars = list(csv.DictReader(saved["bars"].splitlines()))
    assert {row["series"] for row in bars} == {"majority", "missing"}
    for row in bars:
        x, *ends = (float(row[name]) for name in ("accuracy on everyone's test set (%)", "from", "to"))
        assert sum(ends) / 2 == pytest.approx(x, abs=0.01)
    assert saved["svg"].startswith("<svg")


def test_titles_of_axes_are_broken_anew_when_the_window_becomes_narrow(opened: Visit, address: str) -> None:
    page = opened(address)
    lines = "document.querySelectorAll('[data-figure=\"lead\"] .xtitle tspan').length"
    wide = page.evaluate(lines)
    page.set_viewport_size({"width": 320, "height": 740})
    until(page, f"{lines} > {wide}")


def test_tsne_comes_on_demand(desktop: Page) -> None:
    page = desktop
    before = drawn(page, "features")
    page.click('[data-action="tsne"]')
    page.wait_for_selector('[data-action="tsne"]:enabled', timeout=60_000)
    assert drawn(page, "features") != before
    assert marks(page, "features") > 100
    page.click('[data-action="tsne"]')
    assert drawn(page, "features") == before


def test_tsne_keeps_neighbours_together(desktop: Page) -> None:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 20)
    points = random.normal(0, 1, (80, 12)) + 6 * random.normal(0, 1, (4, 12))[labels]
    run = """points => {
        const steps = tsne(points, 10);
        for (let i = 0; i < 399; i++) steps.next();
        return steps.next().value;
    }"""
    found = np.array(desktop.evaluate(run, points.tolist()))
    distance = np.linalg.norm(found[:, None] - found[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    assert (labels[distance.argmin(axis=1)] == labels).mean() > 0.97
    centres = np.stack([found[labels == label].mean(axis=0) for label in range(4)])
    assert np.linalg.norm(found - centres[labels], axis=-1).mean() < 0.5 * np.linalg.norm(
        centres[0] - centres[1]
    )


def test_names_with_tags_stay_names(opened: Visit, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"console.log('harm')\"><script>console.log('harm')</script>"
    bold = '<b>bold</b> <a href="https://example.org">link</a>'
    place = make(tmp_path, settings("fedavg"), classes=(evil, bold, "</script>", "&lt;"))
    write([place], tmp_path / "report.html")
    page = opened((tmp_path / "report.html").as_uri())
    labels = page.locator('[data-figure="confusion"] .xaxislayer-above text').all_text_contents()
    assert any("<b>bold</b>" in label for label in labels)
    assert page.locator(".plot a, .plot img, main script").count() == 0


@pytest.mark.parametrize("screen", ["phone", "desktop"])
def test_nothing_is_wider_than_the_screen(request: pytest.FixtureRequest, screen: str) -> None:
    page = request.getfixturevalue(screen)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    assert (
        page.eval_on_selector_all(".plot .main-svg, .card, .controls, .legend, h1, h2, h3, .how", outside)
        == 0
    )


def test_titles_of_axes_fit_a_phone(phone: Page) -> None:
    cut = """all => all.filter(title => {
        const own = title.getBoundingClientRect(), box = title.closest('.plot').getBoundingClientRect();
        return own.left < box.left - 2 || own.right > box.right + 2;
    }).map(title => title.textContent)"""
    assert phone.eval_on_selector_all(".plot .xtitle", cut) == []


def test_it_prints(opened: Visit, address: str) -> None:
    page = opened(address)
    content = page.pdf(format="A4")
    assert content.startswith(b"%PDF")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    widths = page.eval_on_selector_all(
        ".plot .main-svg", "all => all.map(s => s.getBoundingClientRect().width)"
    )
    assert set(widths) == {700}
    assert not page.locator("nav.sections").is_visible()
    assert not page.locator(".tools").first.is_visible()
    heights = page.eval_on_selector_all(
        ".table .scroll", "all => all.filter(s => s.scrollHeight > s.clientHeight + 1).length"
    )
    assert heights == 0  # nothing stays behind a scroll bar


@pytest.mark.parametrize("screen", ["phone", "desktop"])
def test_axe_finds_nothing_serious(request: pytest.FixtureRequest, axe: str, screen: str) -> None:
    page = request.getfixturevalue(screen)
    page.evaluate(axe)
    # A chart is one image with a description; what it is drawn with is no content.
    found = page.evaluate("axe.run({ exclude: ['.plot > *'] })")
    serious = [
        f"{one['id']}: {one['help']} {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 20


def test_everything_is_reached_by_keyboard(opened: Visit, address: str) -> None:
    page = opened(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    stops = "a[href], button:not([disabled]), select, input, [tabindex='0']"
    negative = f"all => all.filter(e => e.tabIndex < 0 && e.matches({stops!r})).length"
    assert page.eval_on_selector_all("body *", negative) == 0
    page.focus('[data-figure="curves"] input[value="bytes"]')
    page.keyboard.press("ArrowRight")
    assert page.is_checked('[data-figure="curves"] input[value="seconds"]')
