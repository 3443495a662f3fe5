"""Processes that take orders one at a time; one that dies or hangs is replaced and its order given again."""

import json
import multiprocessing
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from fedskew import errors
from fedskew.engines.worker import Order
from fedskew.errors import FedskewError

ATTEMPTS = 3


class WorkerError(FedskewError):
    """A worker process failed again and again, or in a way nobody foresaw."""


class Task(NamedTuple):
    """An order, what it is about and how long it may take."""

    what: str
    order: Order
    seconds: float


class _Busy(NamedTuple):
    position: int
    deadline: float


class _Worker(NamedTuple):
    process: BaseProcess
    line: Connection


class Crew:
    """`size` processes that run `target(line)`."""

    def __init__(self, context: BaseContext, target: Callable[[Connection], None], size: int) -> None:
        self._context, self._target = context, target
        self.workers = [self._hire() for _ in range(size)]

    def run(self, tasks: Sequence[Task]) -> Iterator[int]:
        """Gives out the tasks in order and yields their positions as they are done."""
        waiting = deque(range(len(tasks)))
        tries = [0] * len(tasks)
        busy: dict[int, _Busy] = {}
        try:
            while waiting or busy:
                self._give_out(tasks, waiting, busy)
                for place, done in self._listen(busy):
                    position = busy[place].position
                    if not done:
                        tries[position] += 1
                        self._refuse_despair(place, tasks[position], tries[position])
                        waiting.appendleft(position)
                        self._replace(place)
                    del busy[place]
                    if done:
                        yield position
        finally:
            # Nobody will listen to the answers of those still at work.
            for place in busy if self.workers else ():
                self._replace(place)

    def close(self) -> None:
        """Ends the processes."""
        while self.workers:
            self._dismiss(self.workers.pop())

    def _hire(self) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        process = self._context.Process(target=self._target, args=(theirs,), daemon=True)  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            # Python warns when a process with threads forks; a worker needs none of the parent's locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _give_out(self, tasks: Sequence[Task], waiting: deque[int], busy: dict[int, _Busy]) -> None:
        for place, worker in enumerate(self.workers):
            if waiting and place not in busy:
                position = waiting.popleft()
                busy[place] = _Busy(position, time.monotonic() + tasks[position].seconds)
                with suppress(OSError):  # it is dead, which `_listen` will see
                    worker.line.send_bytes(json.dumps(tasks[position].order).encode())

    def _listen(self, busy: dict[int, _Busy]) -> list[tuple[int, bool]]:
        """Who finished (True) or must be replaced (False), waiting for at least one of them."""
        lines = {self.workers[place].line: place for place in busy}
        ends = {self.workers[place].process.sentinel: place for place in busy}
        first = min(entry.deadline for entry in busy.values())
        ready = wait([*lines, *ends], max(0.0, first - time.monotonic()))
        heard = {lines[line]: self._hear(line) for line in lines if line in ready}
        gone = {ends[end]: False for end in ends if end in ready and ends[end] not in heard}
        late = {
            p: False for p, entry in busy.items() if p not in heard and entry.deadline <= time.monotonic()
        }
        return list((late | gone | heard).items())

    def _hear(self, line: Connection) -> bool:
        try:
            answer = json.loads(line.recv_bytes())
        except (EOFError, OSError):
            return False
        if "error" in answer:
            kind = getattr(errors, answer["error"] or "-", WorkerError)
            raise kind(answer["text"])
        return True

    def _refuse_despair(self, place: int, task: Task, tries: int) -> None:
        if tries < ATTEMPTS:
            return
        process = self.workers[place].process
        process.join(0.1)
        late = process.is_alive()
        why = f"took more than {task.seconds:.0f} s" if late else f"ended with code {process.exitcode}"
        raise WorkerError(
            f"{task.what}: the worker process {why}, {tries} times in a row. If memory ran out (code -9), use "
            "fewer engine.workers or a smaller model; engine.name = 'serial' shows errors in this process."
        )

    def _replace(self, place: int) -> None:
        self._dismiss(self.workers[place])
        self.workers[place] = self._hire()

    def _dismiss(self, worker: _Worker) -> None:
        worker.line.close()
        worker.process.kill()
        worker.process.join()
