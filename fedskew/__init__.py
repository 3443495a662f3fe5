"""fedskew: federated learning when clients do not see the same classes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fedskew.data.dataset import Dataset
    from fedskew.data.federation import Training
    from fedskew.data.partition import IID, Dirichlet, Incomplete, Labels, Natural, PowerLaw, Shards
    from fedskew.engines.choose import Choice
    from fedskew.experiment import Experiment, run
    from fedskew.method import Method
    from fedskew.results import Result, Results
    from fedskew.step import SGD

# Imported on first use: the command line must answer before torch is loaded.
_HOMES = {
    "fedskew.data.dataset": ("Dataset",),
    "fedskew.data.federation": ("Training",),
    "fedskew.data.partition": ("IID", "Dirichlet", "Incomplete", "Labels", "Natural", "PowerLaw", "Shards"),
    "fedskew.engines.choose": ("Choice",),
    "fedskew.experiment": ("Experiment", "run"),
    "fedskew.method": ("Method",),
    "fedskew.results": ("Result", "Results"),
    "fedskew.step": ("SGD",),
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "IID",
    "SGD",
    "Choice",
    "Dataset",
    "Dirichlet",
    "Experiment",
    "Incomplete",
    "Labels",
    "Method",
    "Natural",
    "PowerLaw",
    "Result",
    "Results",
    "Shards",
    "Training",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'fedskew' has no attribute '{name}'")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
