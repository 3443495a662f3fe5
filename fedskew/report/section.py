"""A part of the page: a heading, a sentence, and figures and tables in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fedskew.report.figure import Figure
from fedskew.report.study import Setting, Study
from fedskew.report.table import Table


class Section(NamedTuple):
    """One numbered part."""

    id: str
    title: str
    intro: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def section(
    id: str,
    title: str,
    intro: str,
    figures: Iterable[Figure | None] = (),
    tables: Iterable[Table | None] = (),
    notes: Iterable[str] = (),
) -> Section:
    """A section of what there is; a figure or table that has nothing to show is None."""
    return Section(
        id,
        title,
        intro,
        tuple(figure for figure in figures if figure is not None),
        tuple(table for table in tables if table is not None),
        tuple(notes),
    )


def named(study: Study, setting: Setting, text: str) -> str:
    """A title that says which setting it is about, where there are several."""
    return text if len(study.settings) == 1 else f"{text} ({setting.label})"


def numbered(study: Study, setting: Setting, id: str) -> str:
    """An identifier that no other setting's table has."""
    return id if len(study.settings) == 1 else f"{id}-{study.settings.index(setting) + 1}"
