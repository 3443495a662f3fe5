"""Fast forward and backward passes of plain networks; the engine chooses, no method knows."""

from fedskew.kernels.backend import Backend, current, using

__all__ = ["Backend", "current", "using"]
