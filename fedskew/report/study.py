"""Runs put in order: what was the same (a setting), what was compared in it (arms), and over which seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedskew.errors import ConfigError
from fedskew.report.gather import Seen, settings, varying
from fedskew.results import Result, Results

_NOT_A_SETTING = ("name", "seeds", "method.", "engine.", "evaluate.")


class Arm(NamedTuple):
    """One method in one setting, over its seeds."""

    label: str
    runs: tuple[Seen, ...]  # in the order of their seeds

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, ascending."""
        return tuple(run.seed for run in self.runs)

    def results(self) -> list[Result]:
        """One result per seed."""
        return [run.result(self.label) for run in self.runs]

    def value(self, metric: str, seed: int) -> float:
        """Mean of the last ten measured rounds under a seed; nan if there is none."""
        found = [run for run in self.runs if run.seed == seed]
        return found[0].result(self.label).mean_last(metric) if found else math.nan


class Setting(NamedTuple):
    """Data, split, network and training that several methods share."""

    label: str
    arms: tuple[Arm, ...]

    @property
    def results(self) -> Results:
        """All runs, labelled by arm."""
        return Results(tuple(result for arm in self.arms for result in arm.results()))

    @property
    def first(self) -> Seen:
        """A run that stands for the setting."""
        return self.arms[0].runs[0]

    def class_names(self, count: int) -> list[str]:
        """The names of the classes, or their numbers where a run has not recorded them."""
        census = self.first.census
        return list(census.classes) if census else [str(i) for i in range(count)]


class Study(NamedTuple):
    """Everything one report is about."""

    settings: tuple[Setting, ...]
    notes: tuple[str, ...]  # what a reader must know before believing the numbers

    @property
    def runs(self) -> list[Seen]:
        """Every run."""
        return [run for setting in self.settings for arm in setting.arms for run in arm.runs]

    @property
    def labels(self) -> list[str]:
        """The labels of all arms, in order of first occurrence."""
        return list(dict.fromkeys(arm.label for setting in self.settings for arm in setting.arms))


def study(seen: Sequence[Seen]) -> Study:
    """Sorts runs into settings and arms."""
    begun = [run for run in seen if run.records or run.diverged is not None]
    if not begun:
        raise ConfigError("no run has finished a round yet, so there is nothing to report. Wait for one.")
    unique, twice = _without_repeats(begun)
    made = _settings(unique)
    cautions = Results(tuple(result for setting in made for result in setting.results.runs)).cautions()
    return Study(made, (*_notes(seen, unique), *twice, *_unequal(made), *cautions))


def _unequal(settings: Sequence[Setting]) -> list[str]:
    """Settings whose methods were not run under the same seeds."""
    uneven = [one.label for one in settings if len({tuple(arm.seeds) for arm in one.arms}) > 1]
    return [
        f"{label or 'The methods'}: not all have the same seeds. The best is chosen on those that all have; tables "
        "show the mean of every method's own."
        for label in uneven
    ]


def _settings(runs: Sequence[Seen]) -> tuple[Setting, ...]:
    groups = _grouped(runs, _surroundings)
    keys = _telling([_surroundings(group[0]) for group in groups])
    methods = _grouped(runs, _method)
    names = _method_labels([_method(group[0]) for group in methods])
    labels = {_key(_method(group[0])): name for group, name in zip(methods, names, strict=True)}
    out = []
    for group in groups:
        arms = [
            Arm(labels[_key(_method(part[0]))], tuple(sorted(part, key=lambda run: run.seed)))
            for part in _grouped(group, _method)
        ]
        out.append(Setting(_described(_surroundings(group[0]), keys), tuple(arms)))
    return tuple(out)


def _telling(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first few of the keys that vary, as many as tell all tables apart; the settings list shows the rest."""
    keys = list(varying(tables))
    for count in range(len(keys)):
        if len({_described(table, keys[:count]) for table in tables}) == len(tables):
            return keys[:count]
    return keys


def _surroundings(run: Seen) -> dict[str, Any]:
    return {k: v for k, v in settings(run.config).items() if not k.startswith(_NOT_A_SETTING)}


def _method(run: Seen) -> dict[str, Any]:
    return {k: v for k, v in settings(run.config).items() if k.startswith("method.")}


def _method_labels(methods: Sequence[Mapping[str, Any]]) -> list[str]:
    presets = [str(method["method.preset"]) for method in methods]
    labels = []
    for method, preset in zip(methods, presets, strict=True):
        same = [other for other in methods if other["method.preset"] == preset]
        detail = _described(method, varying(same))
        labels.append(f"{preset} {detail}".strip())
    return labels


def _described(table: Mapping[str, Any], keys: Sequence[str]) -> str:
    said = [_said(key.removeprefix("method."), table[key]) for key in keys if key in table]
    return ", ".join(said) or ("default" if keys else "")


def _said(key: str, value: object) -> str:
    return key if value == {} else f"{key}={value}"


def _grouped(runs: Sequence[Seen], by: Any) -> list[list[Seen]]:
    found: dict[str, list[Seen]] = {}
    for run in runs:
        found.setdefault(_key(by(run)), []).append(run)
    return list(found.values())


def _key(table: Mapping[str, Any]) -> str:
    return repr(sorted(table.items()))


def _without_repeats(runs: Sequence[Seen]) -> tuple[list[Seen], list[str]]:
    """The longest of the runs that have the same settings and seed."""
    kept: dict[str, Seen] = {}
    notes = []
    for run in runs:
        key = _key({**_surroundings(run), **_method(run), "seed": run.seed})
        if key in kept:
            notes.append(
                f"{run.place} repeats {kept[key].place}; one of the two is shown, the longer if they differ."
            )
        if key not in kept or run.rounds > kept[key].rounds:
            kept[key] = run
    return list(kept.values()), notes


def _notes(seen: Sequence[Seen], runs: Sequence[Seen]) -> list[str]:
    notes = [
        f"{run.config.method.title}, seed {run.seed}: diverged after {run.rounds} rounds, so its method "
        "has no mean."
        for run in runs
        if run.diverged is not None
    ]
    notes += [
        f"{run.config.method.title}, seed {run.seed}: failed after {run.rounds} rounds: {run.failed}"
        for run in runs
        if run.failed is not None
    ]
    going = [run for run in runs if run.diverged is None and not run.complete]
    if going:
        least = min(run.rounds for run in going)
        notes.append(
            f"{len(going)} of {len(runs)} runs are not complete (the least has {least} rounds): "
            "numbers are means of their last ten measured rounds so far."
        )
    waiting = sum(not run.records and run.diverged is None for run in seen)
    if waiting:
        notes.append(f"{waiting} runs have not finished a round and are left out.")
    return notes
