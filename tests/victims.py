"""Small runs, and processes to be killed: forked from this one, which has torch already."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from fedskew.config import Config, parse
from fedskew.errors import FedskewError


def small(method: str, rounds: int = 4, **settings: object) -> Config:
    """Ten clients with two digits each and a network of eight hidden units."""
    table: dict[str, object] = {
        "name": method,
        "split": {"scheme": "labels", "clients": 10, "per_client": 2},
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"preset": method},
        "train": {"rounds": rounds, "epochs": 1, "batch": 32, "lr": 0.05, "momentum": 0.5},
        "evaluate": {"personal": 2},
        "engine": {"name": "serial", "backend": "autograd"},
    }
    return parse(table, "test").changed({key.replace("__", "."): value for key, value in settings.items()})


def result(place: Path) -> dict[str, bytes]:
    """Everything in a run directory that belongs to the result; events hold times of day."""
    skipped = ("events.jsonl", "lock")
    files = (path for path in place.rglob("*") if path.is_file() and path.name not in skipped)
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def start(work: Callable[[], object]) -> int:
    """A child that does the work; it ends with 0, with the code of an error that has one, or with 1."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        torch.set_num_threads(1)
        work()
        code = 0
    except FedskewError as error:
        code = error.exit_code
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int) -> int:
    """How a child ended; minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
