"""A worker of the pool: takes orders from its line, runs clients, leaves the results in files."""

import json
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fedskew.engines import wire
from fedskew.engines.feed import Feed
from fedskew.engines.quarters import keep_memory, quarters
from fedskew.errors import FedskewError
from fedskew.examine import Exam, answer, examine
from fedskew.kernels import Backend

Order = dict[str, Any]  # JSON: "kind", the files to read and to write, and what to do with them


class Site(NamedTuple):
    """Where a worker works."""

    feed: Callable[[], Feed]
    backend: Backend
    parent: int | None  # the process whose end is the worker's; None for a server that ends with it
    folders: tuple[Path, ...]  # removed if the parent ended without doing so


def serve(site: Site, line: Connection) -> None:
    """Works until the line is closed or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends the workers
    keep_memory()
    threading.Thread(target=_follow, args=(site,), daemon=True).start()
    feed = site.feed()
    with quarters(site.backend):
        while True:
            try:
                order = json.loads(line.recv_bytes())
            except (EOFError, OSError):
                return
            line.send_bytes(json.dumps(_obey(feed, order)).encode())


def _follow(site: Site) -> None:
    # A line is no proof of life: workers that were forked later hold copies of its other end.
    parent = site.parent or os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    for folder in site.folders:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _obey(feed: Feed, order: Order) -> Order:
    try:
        _KINDS[order["kind"]](feed, order)
        return {}
    except FedskewError as error:
        return {"error": type(error).__name__, "text": str(error)}
    except Exception:
        return {"error": "", "text": traceback.format_exc()}


def _train(feed: Feed, order: Order) -> None:
    algorithm, replies = feed.algorithm, []
    message = wire.read(Path(order["message"]))
    for client, old, new in order["clients"]:
        kept = wire.read(Path(old)) if old else algorithm.fresh(client)
        reply, kept = algorithm.local(message, kept, feed.client(order["round"], client))
        wire.write(Path(new), kept)
        replies.append(reply)
    wire.write(Path(order["result"]), wire.pack_replies(replies))


def _examine(feed: Feed, order: Order) -> None:
    server, exam = wire.read(Path(order["message"])), Exam(**order["exam"])
    states = ((client, wire.read(Path(old)) if old else None) for client, old in order["clients"])
    wire.write(Path(order["result"]), wire.pack_marks(examine(feed, server, states, exam)))


def _answer(feed: Feed, order: Order) -> None:
    logits = answer(feed, wire.read(Path(order["message"])), torch.tensor(order["examples"]))
    wire.write(Path(order["result"]), {"answer": {"logits": logits}})


_KINDS: dict[str, Callable[[Feed, Order], None]] = {"train": _train, "examine": _examine, "answer": _answer}


def shares(loads: Sequence[int], workers: int) -> list[range]:
    """Cuts a list sorted by falling load into jobs: large ones alone first, many small ones together last."""
    left, first, cuts = sum(loads), 0, []
    while first < len(loads):
        last, taken = first + 1, loads[first]
        while last < len(loads) and taken + loads[last] <= left / (4 * workers):
            taken += loads[last]
            last += 1
        cuts.append(range(first, last))
        left, first = left - taken, last
    return cuts
