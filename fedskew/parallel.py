"""Many runs at once: one process each, one thread a process; what dies can be resumed."""

from __future__ import annotations

import multiprocessing
import os
import queue
from collections.abc import Iterator, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NamedTuple

from fedskew.errors import FedskewError


class News(NamedTuple):
    """What a job has to say: rounds done, or how it ended."""

    place: Path
    done: int
    rounds: int
    error: FedskewError | None = None


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def carry_on(places: Sequence[Path], workers: int = 0) -> Iterator[News]:
    """Trains the runs to their ends, several at a time, and tells of every round."""
    count = min(workers or cores(), len(places))
    if count <= 1:
        yield from _in_turn(places)
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedskew.runs"])
    yield from _at_once(context, places, count)


def _in_turn(places: Sequence[Path]) -> Iterator[News]:
    from fedskew import runs

    for place in places:
        told: list[News] = []
        try:
            runs.carry_on(place, lambda where, done, rounds: told.append(News(where, done, rounds)))
            yield from told
        except FedskewError as error:
            yield from told
            yield News(place, 0, 0, error)


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
                raise FedskewError("a worker process ended unexpectedly; resume the runs.") from None
            continue
        if said is None:
            finished += 1
        else:
            yield said


def _worker(todo: Any, news: Any) -> None:
    import torch

    from fedskew import runs

    torch.set_num_threads(1)
    while (place := todo.get()) is not None:
        try:
            runs.carry_on(place, lambda where, done, rounds: news.put(News(where, done, rounds)))
        except FedskewError as error:
            news.put(News(place, 0, 0, error))
    news.put(None)
