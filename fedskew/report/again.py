"""The commands and settings that give the same runs again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from fedskew.config import Config
from fedskew.report.gather import flat
from fedskew.report.study import Arm, Setting


class Rerun(NamedTuple):
    """A command and the file it reads."""

    command: str
    file: str
    toml: str


def reruns(settings: Sequence[Setting]) -> list[Rerun]:
    """One command per setting where only the preset varies in it, else one per method."""
    out: list[Rerun] = []
    for setting in settings:
        number = len(out) + 1
        if _only_presets(setting):
            out.append(_compare(setting, f"settings-{number}" if len(settings) > 1 else "settings"))
        else:
            out += [_run(arm, f"settings-{number + i}") for i, arm in enumerate(setting.arms)]
    return out


def _only_presets(setting: Setting) -> bool:
    same_seeds = len({arm.seeds for arm in setting.arms}) == 1
    tables = [flat(arm.runs[0].config.method.model_dump(mode="json")) for arm in setting.arms]
    plain = all(value is None or key == "preset" for table in tables for key, value in table.items())
    rest = {_common(arm.runs[0].config) for arm in setting.arms}
    return same_seeds and plain and len(rest) == 1 and len(setting.arms) > 1


def _common(config: Config) -> str:
    """What must be alike: the engine too, whose rounding is part of the numbers; a pool's is that of `serial`."""
    name = "serial" if config.engine.name == "pool" else config.engine.name
    engine = {"name": name, "backend": config.engine.backend, "device": config.engine.device}
    return config.changed({"name": "again", "method": {"preset": "fedavg"}, "engine": engine}).toml()


def _compare(setting: Setting, name: str) -> Rerun:
    first = setting.arms[0]
    config = first.runs[0].config.changed({"name": name, "seeds": list(first.seeds)})
    methods = ",".join(arm.runs[0].config.method.preset for arm in setting.arms)
    command = f"fedskew compare {name}.toml --methods {shlex.quote(methods)} --seeds {_seeds(first)}"
    return Rerun(command, f"{name}.toml", config.toml())


def _run(arm: Arm, name: str) -> Rerun:
    config = arm.runs[0].config.changed({"name": name, "seeds": list(arm.seeds)})
    return Rerun(f"fedskew run {name}.toml --seeds {_seeds(arm)}", f"{name}.toml", config.toml())


def _seeds(arm: Arm) -> str:
    seeds = arm.seeds
    if len(seeds) > 1 and seeds == tuple(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}:{seeds[-1] + 1}"
    return ",".join(map(str, seeds))
