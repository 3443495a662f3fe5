"""fedskew: federated learning when clients do not see the same classes."""

__version__ = "0.1.0"
