"""What goes on inside: features, class proxies, the numbers that a method adapts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fedskew.errors import FedskewError
from fedskew.report import series, table
from fedskew.report.figure import (
    COLOURS,
    SYMBOLS,
    Control,
    Figure,
    Key,
    View,
    across,
    axes,
    choose,
    looks,
    single,
    tidy,
)
from fedskew.report.section import Section, section
from fedskew.report.sections.answer import named, numbered
from fedskew.report.sections.classes import class_names
from fedskew.report.sections.curves import legend, lines
from fedskew.report.study import Setting, Study
from fedskew.report.table import Table

TYPE_OF_ROW = (
    Key("server", "#111111", symbol="circle"),
    Key("clients that hold the class", "#0072b2", symbol="square"),
    Key("clients that miss it", "#d55e00", symbol="diamond"),
)


def build(study: Study, peeks: Peeks | None) -> Section:
    """The section on models; without `peeks` only what the records tell."""
    keys = looks(study.labels)
    found = peeks or Peeks({}, ())
    figures = [
        across(study, partial(_features, found)),
        across(study, partial(_proxies, found)),
        across(study, lambda setting: _state(setting, keys)),
        across(study, partial(_internals, found, keys)),
    ]
    tables = [_distances(found, setting, study) for setting in study.settings]
    intro = "From the last checkpoint of each method's first seed, and from what methods adapt on the way."
    later = () if peeks else ("Features and class proxies are in the page that `fedskew report` writes.",)
    return section("inside", "Inside the models", intro, figures, tables, (*found.notes, *later))
