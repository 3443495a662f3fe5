"""Parts by name and settings, as a configuration gives them, put into the slots of a method."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from fedskew import parts
from fedskew.errors import ConfigError, unknown
from fedskew.method import Method, is_free
from fedskew.part import Part, Term

SLOTS = ("objective", "schedule", "share", "aggregate", "server", "network")


def fill(method: Method, tables: Mapping[str, object]) -> Method:
    """The method with these parts: one that it has gets the settings, another one fills its free slot."""
    filled: dict[str, Any] = {}
    terms: dict[str, Any] = {term.name: term for term in method.terms}
    for name, settings in tables.items():
        kind = part_class(name)
        if issubclass(kind, Term):
            terms[name] = _changed(kind, terms.get(name), settings)
            continue
        slot = next(slot for slot in SLOTS if issubclass(kind, _base(slot)))
        present = filled.get(slot, getattr(method, slot))
        if present.name != name and (slot in filled or not is_free(slot, present)):
            raise ConfigError(
                f"{name} and {present.name} both fill the slot '{slot}': keep one of the two, "
                "or start from a preset that leaves it free."
            )
        filled[slot] = _changed(kind, present if present.name == name else None, settings)
    return replace(method, terms=tuple(terms.values()), **filled)


def part_class(name: str) -> type[Part]:
    """The part of this name."""
    if name not in parts.__all__:
        raise ConfigError(unknown("part", name, parts.__all__))
    kind: type[Part] = getattr(parts, name)
    return kind


def _base(slot: str) -> type[Part]:
    base: type[Part] = type(getattr(Method(), slot)).__mro__[1]
    return base


def _changed(kind: type[Part], present: Part | None, settings: object) -> Part:
    if not isinstance(settings, Mapping):
        raise ConfigError(
            f"{kind.__name__} = {settings!r}: give its settings as a table, e.g. {{}} for the defaults."
        )
    known = [field.name for field in fields(kind)]
    for name in settings:
        if name not in known:
            raise ConfigError(unknown(f"setting of {kind.__name__}", name, known))
    return kind(**settings) if present is None else replace(present, **settings)
