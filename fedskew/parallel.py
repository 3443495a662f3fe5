"""Many runs at once: one process each, one thread a process; what dies can be resumed."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from pathlib import Path
from traceback import format_exception
from typing import Any, NamedTuple

from fedskew.cores import cores
from fedskew.errors import FedskewError


class News(NamedTuple):
    """What a job has to say: rounds done, or how it ended."""

    place: Path
    done: int
    rounds: int
    error: FedskewError | None = None


Tell = Callable[[News], None]


def prepare() -> ForkServerContext:
    """Starts the process that workers are forked from; it imports torch while this one goes on."""
    context = multiprocessing.get_context("forkserver")
    # Workers share what is imported before they are forked; vmap imports torch._dynamo at its first gradient.
    context.set_forkserver_preload(["fedskew.runs", "torch._dynamo"])
    resource_tracker.ensure_running()  # which would unblock the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is ours to answer
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def carry_on(places: Sequence[Path], workers: int = 0) -> Iterator[News]:
    """Trains the runs to their ends, several at a time; what one worker alone does is told run by run.

    A run whose process was killed is not told of again: it has rounds left and can be resumed.
    """
    count = min(workers or cores(), len(places))
    if count > 1:
        yield from _at_once(prepare(), places, count)
        return
    for place in places:
        told: list[News] = []
        _one(place, told.append)
        yield from told


def follow(places: Sequence[Path], tell: Tell, workers: int = 0) -> None:
    """The same, told round by round, as it happens, to a function."""
    if min(workers or cores(), len(places)) > 1:
        for news in carry_on(places, workers):
            tell(news)
        return
    for place in places:
        _one(place, tell)


def _one(place: Path, tell: Tell) -> None:
    from fedskew import runs

    try:
        runs.carry_on(place, lambda where, done, rounds: tell(News(where, done, rounds)))
    except FedskewError as error:
        tell(News(place, 0, 0, error))


def _at_once(context: ForkServerContext, places: Sequence[Path], count: int) -> Iterator[News]:
    news: multiprocessing.Queue[News | None] = context.Queue()
    todo: multiprocessing.Queue[Path | None] = context.Queue()
    for place in [*places, *[None] * count]:
        todo.put(place)
    workers = [context.Process(target=_worker, args=(todo, news), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield from _listen(news, workers)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _listen(news: Any, workers: Sequence[Any]) -> Iterator[News]:
    finished = 0
    while finished < len(workers):
        try:
            said = news.get(timeout=1.0)
        except queue.Empty:
            if all(not worker.is_alive() for worker in workers):
                return
            continue
        if said is None:
            finished += 1
        else:
            yield said


def _worker(todo: Any, news: Any) -> None:
    import torch

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal interrupts every process; the first one ends the others
    torch.set_num_threads(1)
    while (place := todo.get()) is not None:
        try:
            _one(place, lambda said: _tell(news, said))
        except Exception as error:  # one run's, and no reason for the others to end
            said = FedskewError(f"{place} ended by an error of its own:\n{''.join(format_exception(error))}")
            _tell(news, News(place, 0, 0, said))
    news.put(None)


def _tell(news: Any, said: News) -> None:
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():
        os._exit(1)  # nobody is waiting for this run; it can be resumed
    news.put(said)
