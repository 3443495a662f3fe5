"""Flower's own FedAvg, to compare with."""
