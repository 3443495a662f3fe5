"""The demo's settings: digits over 20 clients with two labels each, no download."""

from fedskew.config import Config, parse


def config(method: str) -> Config:
    """The demo with one method."""
    return parse(
        {
            "name": method,
            "data": {"name": "digits"},
            "split": {"scheme": "labels", "clients": 20, "per_client": 2},
            "model": {"name": "mlp"},
            "method": {"preset": method},
            "train": {"rounds": 20, "participation": 0.5, "epochs": 5, "batch": 64, "lr": 0.2},
            "evaluate": {"every": 5, "personal": 10},
            "engine": {"name": "vectorised"},
        },
        "the demo",
    )
