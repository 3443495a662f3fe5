"""Configurations with exactly one mistake, made from the schema: no key is named here that the schema has."""

from __future__ import annotations

import random
import string
from dataclasses import fields
from typing import Any, NamedTuple, get_type_hints

from fedskew import parts
from fedskew.config import Config

SCHEMA = Config.model_json_schema()
NAMES = {"data": "name", "split": "scheme", "model": "name", "method": "preset"}  # what an open table names
PLAIN = (bool, int, float, str)


class Wrong(NamedTuple):
    """Overrides that make a good configuration a bad one, and the key that the message must name."""

    overrides: dict[str, object]
    key: str


def tables() -> dict[str, dict[str, Any]]:
    """The properties of every table; those of the top level under the empty name."""
    found = {"": {}}
    for name, one in SCHEMA["properties"].items():
        if "$ref" in one:
            found[name] = SCHEMA["$defs"][one["$ref"].rpartition("/")[2]]["properties"]
        else:
            found[""][name] = one
    return found


def word(rng: random.Random) -> str:
    """Letters that mean nothing."""
    return "q" + "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9)))


def misspelt(name: str, rng: random.Random) -> str:
    """A name that is nearly right."""
    at = rng.randrange(len(name))
    ways = (name[:at] + "q" + name[at:], name[:at] + "qx" + name[at + 1 :], name + "q" + name[at:])
    return rng.choice(ways).replace(".", "q")


def wrong_value(one: dict[str, Any], rng: random.Random) -> object:
    """A value that a property of the schema cannot have."""
    kinds = [kind for kind in one.get("anyOf", [one]) if kind.get("type") != "null"]
    kind = rng.choice(kinds)
    if "enum" in kind:
        return rng.choice([misspelt(str(rng.choice(kind["enum"])), rng), [], rng.random()])
    return rng.choice(_WAYS[kind["type"]](kind, rng))


def _number(kind: dict[str, Any], rng: random.Random) -> list[object]:
    ways: list[object] = [word(rng), [1], {word(rng): 1}, float("nan"), float("inf"), True]
    size = rng.uniform(0.5, 1e9)
    for bound, sign in (("minimum", -1), ("exclusiveMinimum", -1), ("maximum", 1), ("exclusiveMaximum", 1)):
        if bound in kind:
            ways += [kind[bound] + sign * size] * 2
    return ways


def _integer(kind: dict[str, Any], rng: random.Random) -> list[object]:
    ways: list[object] = [word(rng), [1], {word(rng): 1}, rng.randint(0, 99) + 0.5, True]
    return ways + [kind["minimum"] - rng.randint(1, 10**9)] * 3 if "minimum" in kind else ways


_WAYS: dict[str, Any] = {
    "number": _number,
    "integer": _integer,
    "boolean": lambda kind, rng: [word(rng), rng.randint(2, 99), [], 0.5],
    "string": lambda kind, rng: [rng.random(), rng.randint(0, 99), [word(rng)], {word(rng): 1}],
    "array": lambda kind, rng: [rng.random(), word(rng), {word(rng): 1}, [[]]],
}


def bad_value(rng: random.Random) -> Wrong:
    """A known key with a value it cannot have."""
    table, properties = rng.choice([(name, known) for name, known in tables().items() if known])
    key = rng.choice(sorted(properties))
    full = f"{table}.{key}".lstrip(".")
    return Wrong({full: wrong_value(properties[key], rng)}, full)


def unknown_key(rng: random.Random) -> Wrong:
    """A key that is nearly one of the schema's, in a table that takes no others."""
    table, properties = rng.choice([(name, known) for name, known in tables().items() if name not in NAMES])
    wrong = misspelt(rng.choice(sorted(properties)), rng)
    full = f"{table}.{wrong}".lstrip(".")
    return Wrong({full: rng.choice([1, "x", True, [1], {"a": 1}])}, full)


def no_table(rng: random.Random) -> Wrong:
    """A table that is a value, or does not exist."""
    table = rng.choice(sorted(set(tables()) - {""}))
    if rng.random() < 0.5:
        return Wrong({table: rng.choice([3, "x", [1], 0.5])}, table)
    wrong = misspelt(table, rng)
    return Wrong({f"{wrong}.{word(rng)}": 1}, wrong)


def unknown_name(rng: random.Random) -> Wrong:
    """A dataset, scheme, network or preset that there is not."""
    table = rng.choice(sorted(NAMES))
    wrong = word(rng)
    shown = f"fedavg+{wrong}" if table == "method" and rng.random() < 0.5 else wrong
    return Wrong({f"{table}.{NAMES[table]}": shown}, wrong)


def unknown_option(rng: random.Random) -> Wrong:
    """An option that what the table names does not have."""
    table, wrong = rng.choice(sorted(NAMES)), word(rng)
    return Wrong({f"{table}.{wrong}": rng.choice([1, "x", True, {"a": 1}])}, wrong)


def bad_part(rng: random.Random) -> Wrong:
    """A part with a setting it does not have, or a value that is none of its kind."""
    name = rng.choice([one for one in parts.__all__ if fields(getattr(parts, one))])
    kind = getattr(parts, name)
    known = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}
    if rng.random() < 0.3:
        wrong = misspelt(rng.choice(sorted(known)), rng)
        return Wrong({f"method.{name}": {wrong: 1}}, wrong)
    setting = rng.choice(sorted(known))
    ways: list[object] = [[word(rng)], {word(rng): 1}, f"{word(rng)}"]
    if known[setting] is str:
        ways = ways[:2]
    return Wrong({f"method.{name}": {setting: rng.choice(ways)}}, f"{name}.{setting}")


def bad_option(rng: random.Random) -> Wrong:
    """An option of a scheme or of a network with a value that is none of its kind."""
    key = rng.choice(["split.clients", "split.per_client", "model.hidden"])
    return Wrong({key: rng.choice([word(rng), {word(rng): 1}, [[1]], -rng.randint(1, 99), 0.5])}, key)


KINDS = (bad_value, unknown_key, no_table, unknown_name, unknown_option, bad_part, bad_option)
