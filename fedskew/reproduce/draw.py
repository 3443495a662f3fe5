"""Figures of a recipe as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedskew.reproduce import chart
from fedskew.reproduce.pictures import charts
from fedskew.reproduce.recipe import Recipe


def draw(recipe: Recipe, results: Path, folder: Path, pdf: bool) -> Iterator[Path]:
    """One page with all figures of a recipe and, if wanted, a PDF of each."""
    found = charts(recipe, results)
    if not found:
        return
    page = folder / f"{recipe.name}.html"
    chart.page(f"{recipe.paper}, {recipe.where}: {recipe.title}", found, page)
    yield page
    for number, one in enumerate(found, 1):
        if pdf:
            path = folder / f"{recipe.name}-{number}.pdf"
            chart.pdf(one, path)
            yield path
