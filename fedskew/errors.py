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


_ELSEWHERE = {
    "alpha": "beta",
    "batch_size": "batch",
    "fraction": "participation",
    "learning_rate": "lr",
    "local_epochs": "epochs",
    "num_clients": "clients",
    "num_rounds": "rounds",
}  # what other libraries and papers call a setting


def unknown(what: str, name: str, choices: Iterable[str], hints: Iterable[str] = ()) -> str:
    """Says that `name` is no `what`, suggests the nearest choice or hint, and lists the choices."""
    known = sorted(choices)
    last = {choice.rpartition(".")[2]: choice for choice in (*hints, *known)}
    word = name.rpartition(".")[2]
    near = [_ELSEWHERE[word]] if _ELSEWHERE.get(word) in last else get_close_matches(word, last, n=1)
    hint = f" Did you mean '{last[near[0]]}'?" if near else ""
    return f"unknown {what} '{name}'.{hint} Choices: {', '.join(known)}."


def reason(message: str) -> str:
    """What pydantic has against a value, to stand behind the value and a colon."""
    plain = message.removeprefix("Value error, ").removeprefix("Input ").replace("valid tuple", "list")
    return plain[:1].lower() + plain[1:]
