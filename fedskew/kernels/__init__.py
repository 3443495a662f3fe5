"""Fast forward and backward passes of plain networks; the engine chooses, no method knows."""

from fedskew.kernels.backend import Backend, current, using
from fedskew.kernels.build import prepare, ready, status

__all__ = ["Backend", "current", "prepare", "ready", "status", "using"]
