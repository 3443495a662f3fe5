"""Clients in several processes of one machine, each with one thread of torch."""

import multiprocessing
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from fedskew import tree
from fedskew.algorithm import BATCH, Algorithm
from fedskew.cores import cores
from fedskew.data.federation import Federation, Training
from fedskew.engines import wire
from fedskew.engines.crew import Crew, Task
from fedskew.engines.engine import gather
from fedskew.engines.feed import Feed
from fedskew.engines.shelf import Shelf
from fedskew.engines.worker import Order, Site, serve, shares
from fedskew.errors import ConfigError
from fedskew.examine import Exam, Marks
from fedskew.gate import Gate
from fedskew.kernels import Backend, prepare
from fedskew.tree import State
from fedskew.values import Cohort, Reply

Start = Literal["fork", "forkserver", "spawn"]
Recipe = Callable[[Federation], Algorithm]
Paths = tuple[str | None, ...]  # a client's files


class Pool:
    """The largest clients first, each to whichever worker is free; what a client remembers is in a file.

    Workers are forked: they share data and algorithm with the parent and start in milliseconds. Where
    processes cannot be forked, `start` says how they begin and `recipe`, which can be pickled, builds the
    algorithm.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        training: Training,
        workers: int = 0,
        backend: Backend = "autograd",
        start: Start | None = None,
        recipe: Recipe | None = None,
        patience: float = 600.0,  # seconds a client may take
        memory: int | None = None,  # bytes of clients' states that stay off the disk
        gate: Gate | None = None,
    ) -> None:
        self.algorithm, self.patience, self.gate = algorithm, patience, gate
        self.feed = Feed.of(algorithm, federation, training)
        self.kept = Shelf(memory)
        self._size = sum(map(tree.nbytes, algorithm.fresh(0).values())) + tree.nbytes(algorithm.initial)
        way = start or ("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
        parent = None if way == "forkserver" else os.getpid()
        site = Site(_source(way, self.feed, recipe), backend, parent, self.kept.folders)
        # torch's context sends tensors through shared memory where a process is not forked.
        context = torch.multiprocessing.get_context(way)
        prepare(backend)  # once, before there are workers
        self._crew = Crew(context, partial(serve, site), workers or cores())
        self._end = weakref.finalize(self, _end, self._crew, self.kept)

    def adopt(self, kept: MutableMapping[int, State]) -> None:
        """States are copied to where the workers find them."""
        self.kept.update(kept)

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        """Trains the clients; what they remember changes when all have answered."""
        new = {client: self.kept.room(n * self._size) / f"new-{client}" for n, client in enumerate(ids)}
        files = {client: (self._old(client), str(new[client])) for client in ids}
        answers: dict[int, Reply] = {}
        for job, state in self._run({"kind": "train", "round": round}, message, files):
            answers |= zip(job, wire.unpack_replies(state), strict=True)
        asked = Cohort(tuple(ids), self.algorithm.population, round)
        replies, cohort = gather(answers, message, asked, self.gate)
        for client in cohort.ids:
            self.kept.put(client, new[client])
        return replies, cohort

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients in the workers."""
        files = {client: (self._old(client),) for client in ids}
        marks: dict[int, Marks] = {}
        for job, state in self._run({"kind": "examine", "exam": exam._asdict()}, server, files):
            marks |= zip(job, wire.unpack_marks(state), strict=True)
        return [marks[client] for client in ids]

    def answer(self, server: State, examples: Tensor) -> Tensor:
        """The server's network, each worker with a share of the examples."""
        batches = -(-len(examples) // BATCH)  # whole ones, whose bits are those of a single process
        each = -(-batches // len(self._crew.workers))
        orders = [
            {"kind": "answer", "examples": share.tolist()} for share in torch.split(examples, each * BATCH)
        ]
        tasks = [Task("the server's network", order, self.patience * each) for order in orders]
        parts = dict(self._work(server, tasks, len(tasks)))
        return torch.cat([parts[position]["answer"]["logits"] for position in range(len(tasks))])

    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [worker.process.pid for worker in self._crew.workers if worker.process.pid is not None]

    def close(self) -> None:
        """Ends the workers and removes their files."""
        self._end()

    def _old(self, client: int) -> str | None:
        path = self.kept.path(client)
        return None if path is None else str(path)

    def _run(
        self, order: Order, message: State, files: Mapping[int, Paths]
    ) -> Iterator[tuple[list[int], State]]:
        """Gives the clients out in jobs; yields each job's clients with the state it left."""
        jobs, tasks = self._jobs(files), []
        for job in jobs:
            what = f"client {job[0]}" if len(job) == 1 else f"one of the clients {job}"
            work = {"clients": [(client, *files[client]) for client in job]}
            tasks.append(Task(what, order | work, self.patience * len(job)))
        for position, state in self._work(message, tasks, len(files)):
            yield jobs[position], state

    def _work(self, message: State, tasks: Sequence[Task], models: int) -> Iterator[tuple[int, State]]:
        """Gives out the tasks, which leave as much as so many models; yields their positions with what each left."""
        folder = self.kept.room((1 + models) * self._size)
        wire.write(folder / "message", message)
        results = [folder / f"result-{number}" for number in range(len(tasks))]
        paths = [{"message": str(folder / "message"), "result": str(result)} for result in results]
        given = [task._replace(order=task.order | own) for task, own in zip(tasks, paths, strict=True)]
        for position in self._crew.run(given):
            yield position, wire.read(results[position])
            results[position].unlink()

    def _jobs(self, ids: Mapping[int, Paths]) -> list[list[int]]:
        loads = {client: self.feed.steps(client) for client in ids}
        ordered = sorted(ids, key=lambda client: (-loads[client], client))
        cuts = shares([loads[client] for client in ordered], len(self._crew.workers))
        return [[ordered[i] for i in cut] for cut in cuts]


@dataclass(frozen=True)
class _Remake:
    """The feed of a process that inherits nothing."""

    recipe: Recipe
    federation: Federation
    training: Training

    def __call__(self) -> Feed:
        return Feed.of(self.recipe(self.federation), self.federation, self.training)


def _source(way: str, feed: Feed, recipe: Recipe | None) -> Callable[[], Feed]:
    if way == "fork":
        return lambda: feed
    if recipe is None:
        raise ConfigError(
            f"a pool whose workers start by {way} needs a recipe that builds the algorithm again; "
            "use engine.name = 'serial', or start = 'fork' where the system has it."
        )
    federation = feed.federation
    shared = federation.data._replace(x=feed.x.share_memory_())  # type: ignore[no-untyped-call]
    return _Remake(recipe, Federation(shared, federation.partition), feed.training)


def _end(crew: Crew, shelf: Shelf) -> None:
    crew.close()
    shelf.close()
