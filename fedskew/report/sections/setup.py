"""With which settings, on which machine, from which files."""

from __future__ import annotations

from fedskew.config import Config
from fedskew.report import table
from fedskew.report.gather import flat, settings
from fedskew.report.section import Section, section
from fedskew.report.study import Study
from fedskew.report.table import Cell, Table

_VARIES = ("name", "seeds")


def build(study: Study) -> Section:
    """The last section."""
    intro = "Everything that decides the numbers above."
    tables = [_settings(study), _environment(study), _files(study)]
    return section("settings", "Settings and files", intro, (), tables)


def _settings(study: Study) -> Table:
    defaults = flat(Config().model_dump(mode="json"))
    found = [settings(run.config) for run in study.runs]
    keys = dict.fromkeys([*defaults, *(key for one in found for key in one)])
    rows: list[tuple[bool, list[Cell]]] = []
    for key in keys:
        values = list(dict.fromkeys(_shown(one.get(key)) for one in found))
        default = _shown(defaults.get(key))
        changed = values != [default] and key not in _VARIES
        cells = [table.text(key), table.text(", ".join(values), strong=changed), table.text(default)]
        rows.append((changed, cells))
    ordered = [cells for _, cells in sorted(rows, key=lambda row: not row[0])]
    how = (
        "Those that are not the default come first. Several values: the runs differ in them. A dash: not set."
    )
    return table.make("settings-table", "Settings", how, ["setting", "value", "default"], ordered)


def _shown(value: object) -> str:
    if value is None or value == []:
        return "–"
    if value == {}:
        return "with its defaults"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _environment(study: Study) -> Table:
    found = [run.environment for run in study.runs]
    keys = dict.fromkeys(key for one in found for key in one)
    rows = [
        [table.text(key), table.text(", ".join(dict.fromkeys(str(one.get(key, "–")) for one in found)))]
        for key in keys
    ]
    how = "The machine and the versions that the runs began on; another machine may differ in the last bits."
    return table.make("environment", "Environment", how, ["what", "value"], rows)


def _files(study: Study) -> Table:
    rows = []
    for run in study.runs:
        who = [table.text(run.config.method.title), table.number(run.seed, "{:.0f}")]
        rows += [[*who, table.text(name), table.text(digest)] for name, digest in run.hashes.items()]
    how = "SHA-256 of the files each run began with; equal hashes are equal files."
    return table.make("files", "Files", how, ["method", "seed", "file", "SHA-256"], rows)
