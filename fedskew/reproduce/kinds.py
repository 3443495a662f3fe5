"""What a recipe can ask for by name: details, pictures and studies, with their options. No torch here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

DETAILS = ("census", "clients", "components", "f1", "map")


class Options(NamedTuple):
    """Those that a picture or a study cannot do without, and others that it takes."""

    needed: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    def check(self, what: str, given: Mapping[str, Any]) -> None:
        """Raises ValueError where one lacks or is none of them."""
        known(f"option of {what}", given, (*self.needed, *self.more))
        for name in self.needed:
            if name not in given:
                raise ValueError(f"{what} needs the option {name}")


PICTURES = {
    "bars": Options(("score",), ("rows",)),
    "lines": Options(("score",), ("axis",)),
    "scores": Options(("axis", "label")),
    "curves": Options(("metric", "axis"), ("percent",)),
    "proxies": Options(),
    "bubbles": Options(),
    "classes": Options(("model",)),
    "before-after": Options(),
    "local-classes": Options(),
    "bounds": Options(),
    "map": Options(),
    "components": Options(),
    "plane": Options(),
    "client-map": Options(),
    "client-f1": Options(),
    "two-clients": Options(),
}
STUDIES = {
    "classes": Options(("name", "observed"), ("targets",)),
    "one-epoch": Options(("name", "recipe", "cell")),
}


def check_study(what: str, study: Mapping[str, Any]) -> None:
    """Raises ValueError unless there is a study of this name that takes these options."""
    if "name" not in study:
        raise ValueError(f"the {what} needs a name; choices: {', '.join(STUDIES)}")
    known(f"name of the {what}", [study["name"]], STUDIES)
    STUDIES[study["name"]].check(f"the {what}", study)


def known(what: str, names: Iterable[str], choices: Collection[str]) -> None:
    """Raises ValueError where a name is none of the choices."""
    wrong = [name for name in names if name not in choices]
    if wrong:
        raise ValueError(f"unknown {what}: {wrong[0]}; choices: {', '.join(choices) or 'none'}")
