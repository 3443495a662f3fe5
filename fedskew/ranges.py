"""Ranges that settings must lie in, as types, and the check that they do."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BeforeValidator, ConfigDict, Field, InstanceOf, TypeAdapter, ValidationError

from fedskew.errors import ConfigError, reason, unknown


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"should be a number, not {str(value).lower()}")
    return value


_NUMBER = BeforeValidator(_no_truth)

Count = Annotated[int, Field(ge=1), _NUMBER]
Natural = Annotated[int, Field(ge=0), _NUMBER]
Positive = Annotated[float, Field(gt=0), _NUMBER]
NonNegative = Annotated[float, Field(ge=0), _NUMBER]
Fraction = Annotated[float, Field(ge=0, le=1), _NUMBER]
SomeFraction = Annotated[float, Field(gt=0, le=1), _NUMBER]
Decay = Annotated[float, Field(ge=0, lt=1), _NUMBER]  # of a running mean
Probability = Annotated[float, Field(gt=0, lt=1), _NUMBER]
Minority = Annotated[float, Field(ge=0, lt=0.5), _NUMBER]


def enforce(settings: Any, *names: str) -> None:
    """Brings these fields of a dataclass, or all, to their types; ConfigError names the first that does not fit."""
    kind: type = type(settings)
    for name in names or [field.name for field in fields(settings)]:
        value = getattr(settings, name)
        try:
            checked = _rule(kind, name).validate_python(value)
        except ValidationError as error:
            why = reason(error.errors()[0]["msg"])
            raise ConfigError(f"{kind.__name__}.{name} = {value!r}: {why}.") from None
        object.__setattr__(settings, name, checked)


def built(cls: type, options: Mapping[str, object], what: str) -> Any:
    """The dataclass with these options; ConfigError names the first that is unknown, lacking or does not fit."""
    known = [field.name for field in fields(cls)]
    for option in options:
        if option not in known:
            raise ConfigError(unknown(f"option of {what}", option, known or ["(it has none)"]))
    try:
        return TypeAdapter(cls).validate_python(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise ConfigError(f"{what} needs the option {where}; it takes {', '.join(known)}.") from None
        raise ConfigError(f"{what}: {where} = {first['input']!r}: {reason(first['msg'])}.") from None


_KNOWN: WeakKeyDictionary[type, dict[str, TypeAdapter[Any]]] = WeakKeyDictionary()  # classes may come and go


def _rule(kind: type, name: str) -> TypeAdapter[Any]:
    known = _KNOWN.setdefault(kind, {})
    if name not in known:
        hint: Any = get_type_hints(kind, include_extras=True)[name]
        checks_itself = is_dataclass(hint)
        rules = None if checks_itself else ConfigDict(arbitrary_types_allowed=True)
        known[name] = TypeAdapter(InstanceOf[hint] if checks_itself else hint, config=rules)
    return known[name]
