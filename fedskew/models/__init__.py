"""Networks by name, and any torch.nn.Module as a model."""

from fedskew.models.registry import model, names, network

__all__ = ["model", "names", "network"]
