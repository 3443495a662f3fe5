"""Who owns what: positions of a pool dealt to clients, from labels and a seed alone."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature

from fedskew.data.partition.base import Partition, Samples, Scheme, hold_out, split
from fedskew.data.partition.measure import Summary, counts, summary
from fedskew.data.partition.own_test import Incomplete, Natural
from fedskew.data.partition.pieces import IID, Labels, Shards
from fedskew.data.partition.shares import Dirichlet, PowerLaw
from fedskew.errors import ConfigError, unknown

__all__ = [
    "IID",
    "Dirichlet",
    "Incomplete",
    "Labels",
    "Natural",
    "Partition",
    "PowerLaw",
    "Samples",
    "Scheme",
    "Shards",
    "Summary",
    "counts",
    "hold_out",
    "scheme",
    "split",
    "summary",
    "takes",
]


def scheme(name: str, settings: Mapping[str, object]) -> Scheme:
    """Builds the scheme of this name (its class, in small letters) from settings as a file gives them."""
    kind = _kind(name)
    known = signature(kind).parameters
    for setting in settings:
        if setting not in known:
            raise ConfigError(unknown(f"setting of partition scheme {name}:", setting, known))
    missing = [
        key for key, value in known.items() if value.default is Parameter.empty and key not in settings
    ]
    if missing:
        raise ConfigError(f"partition scheme {name} needs {', '.join(missing)}; it takes {', '.join(known)}")
    return kind(**settings)


def takes(name: str) -> tuple[str, ...]:
    """The settings of the scheme of this name."""
    return tuple(signature(_kind(name)).parameters)


def _kind(name: str) -> Callable[..., Scheme]:
    kinds: dict[str, Callable[..., Scheme]] = {
        kind.__name__.lower(): kind
        for kind in globals().values()
        if isinstance(kind, type) and issubclass(kind, Scheme) and kind is not Scheme
    }
    if name.lower() not in kinds:
        raise ConfigError(unknown("partition scheme", name, kinds))
    return kinds[name.lower()]
