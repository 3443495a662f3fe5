"""The command line. Nothing here imports torch before a command needs it."""

from fedskew.cli.main import main

__all__ = ["main"]
