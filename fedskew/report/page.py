"""The page: what is in it, and how it becomes one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedskew import __version__
from fedskew.files import write_text
from fedskew.report import again, answer, gather
from fedskew.report.answer import Finding
from fedskew.report.figure import Figure
from fedskew.report.section import Section
from fedskew.report.sections import answer as answer_section
from fedskew.report.sections import classes, clients, curves, data, inside, setup
from fedskew.report.study import Study, study
from fedskew.report.table import data_link

SCRIPTS = ("draw.js", "controls.js", "tables.js", "tsne.js", "start.js")


class Page(NamedTuple):
    """Everything that is said."""

    title: str
    facts: tuple[str, ...]
    notes: tuple[str, ...]
    findings: tuple[tuple[str, tuple[Finding, ...]], ...]  # by setting
    reruns: tuple[again.Rerun, ...]
    sections: tuple[Section, ...]


def write(places: Sequence[Path], page: Path) -> None:
    """Writes the report of these runs as one self-contained file, whole or not at all."""
    made = compose(study([gather.read(place) for place in places]), look_inside=True)
    write_text(page, standalone(made))


def compose(found: Study, look_inside: bool) -> Page:
    """The page of a study; `look_inside` also opens checkpoints, which needs the data and takes longer."""
    peeks, notes = _inside(found) if look_inside else ({}, _LATER)
    sections = (
        answer_section.build(found),
        data.build(found),
        curves.build(found),
        classes.build(found),
        inside.build(found, peeks, notes),
        clients.build(found),
        setup.build(found),
    )
    findings = tuple((setting.label, tuple(answer.findings(setting))) for setting in found.settings)
    reruns = tuple(again.reruns(found.settings))
    return Page("Label-skew report card", _facts(found), found.notes, findings, reruns, sections)


_LATER = ["Features and class proxies are in the page that `fedskew report` writes once runs are complete."]


def _inside(found: Study) -> tuple[Any, list[str]]:
    from fedskew.report.models import look_into  # imports torch

    return look_into(found)


def _facts(found: Study) -> tuple[str, ...]:
    first, runs = found.settings[0].first, found.runs
    seeds, lengths = len({run.seed for run in runs}), {run.rounds for run in runs}
    config = first.config
    clients = f"{len(first.census.train)} clients" if first.census else ""
    facts = [
        _plural(len(found.labels), "method"),
        _plural(seeds, "seed"),
        _plural(len(found.settings), "setting") if len(found.settings) > 1 else "",
        *([config.data.name, clients, config.split.scheme] if len(found.settings) == 1 else []),
        f"{' to '.join(map(str, sorted({min(lengths), max(lengths)})))} rounds",
    ]
    return tuple(fact for fact in facts if fact)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def standalone(page: Page) -> str:
    """The page as one file: styles, scripts and plotly.js inside, and a policy that forbids every request."""
    plotly, script, style = plotly_js(), scripts(SCRIPTS), asset("report.css")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(plotly)} {_hash(script)}",
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            nav=nav(page),
            body=body(page),
            policy=policy,
            plotly=Markup(plotly),
            script=Markup(script),
            style=Markup(style),
            payload=Markup(embedded(payload(page))),
            version=__version__,
        )
    )


def body(page: Page) -> Markup:
    """Everything between the header and the end of the page."""
    return Markup(environment().get_template("body.html.j2").render(page=page, data_link=data_link))


def nav(page: Page) -> Markup:
    """The links to the sections."""
    return Markup(environment().get_template("nav.html.j2").render(page=page))


def payload(page: Page) -> dict[str, Any]:
    """What the script draws: every figure by its identifier."""
    figures = [figure for section in page.sections for figure in section.figures]
    return {"figures": {figure.id: _drawn(figure) for figure in figures}}


def _drawn(figure: Figure) -> dict[str, Any]:
    return {
        "views": figure.views,
        "controls": [control.name for control in figure.controls],
        "height": figure.height,
        "title": figure.title,
    }


def embedded(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def environment() -> Environment:
    """Templates that escape everything that is not marked as safe here."""
    made = Environment(
        loader=PackageLoader("fedskew.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return made


@cache
def asset(name: str) -> str:
    """A file of the package."""
    return (files("fedskew.report") / "assets" / name).read_text(encoding="utf-8")


def scripts(names: Sequence[str]) -> str:
    """Several scripts as one."""
    return "\n".join(asset(name) for name in names)


@cache
def plotly_js() -> str:
    """plotly.js as its Python package carries it."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
