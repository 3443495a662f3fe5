"""Datasets, how they are divided among clients, and how that is checked."""

from fedskew.data.registry import load, names

__all__ = ["load", "names"]
