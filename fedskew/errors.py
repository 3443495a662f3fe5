"""Errors a person can act on: each says what, where, why and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class FedskewError(Exception):
    """A mistake that has a remedy; the command line prints it without a traceback."""

    exit_code = 1


class ConfigError(FedskewError):
    """A setting that is unknown, contradictory or out of range."""

    exit_code = 2


class DataError(FedskewError):
    """A data file that is missing, damaged or not what it says it is."""

    exit_code = 3


class DivergedError(FedskewError):
    """Training produced a value that is not finite."""

    exit_code = 4


class DiskError(FedskewError):
    """A file of a run could not be written or read back."""

    exit_code = 5


class LockedError(FedskewError):
    """Another process owns the run directory."""

    exit_code = 6


def unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """Says that `name` is no `what`, suggests the nearest choice and lists them all."""
    known = sorted(choices)
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"unknown {what} '{name}'.{hint} Choices: {', '.join(known)}."
