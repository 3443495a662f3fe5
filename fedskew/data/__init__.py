"""Datasets, how they are divided among clients, and how that is checked."""

from fedskew.data.registry import dataset, load, names

__all__ = ["dataset", "load", "names"]
