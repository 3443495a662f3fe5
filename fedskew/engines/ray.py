"""Clients on a Ray cluster: this machine's, or the one that RAY_ADDRESS names.

The pool of examples is put into the object store once. Each client has a home, an actor that holds its state;
a copy stays in the object store, so that a home that dies is built again and its block computed again.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import ray
import torch
from ray.exceptions import RayActorError, RayTaskError
from torch import Tensor

from fedskew.algorithm import Algorithm
from fedskew.cores import cores
from fedskew.data.federation import Federation, Training
from fedskew.engines.engine import gather
from fedskew.engines.feed import Feed
from fedskew.engines.quarters import keep_memory, quarters
from fedskew.errors import FedskewError
from fedskew.examine import Exam, Marks, answer, examine
from fedskew.gate import Gate
from fedskew.kernels import Backend
from fedskew.tree import State
from fedskew.values import Cohort, Reply

ATTEMPTS = 3
Ref = Any  # of an object in the store


class LostError(FedskewError):
    """Actors that died again and again."""


class Corrected(NamedTuple):
    """Clients of a block whose home has another state than the driver, or one where the driver has none."""

    known: list[int]
    forgotten: list[int]


class Home:
    """What an actor does: keeps the states of its clients and runs them."""

    def __init__(
        self, algorithm: Algorithm, federation: Federation, training: Training, x: Any, backend: Backend
    ):
        keep_memory()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # the store's memory is read-only, and nobody writes to it
            pool = torch.from_numpy(x)
        self.feed = Feed(algorithm, federation, training, pool)
        self.backend, self.kept = backend, dict[int, State]()

    def train(
        self, message: State, round: int, ids: Sequence[int], corrected: Corrected, *states: State
    ) -> Any:
        """The replies of a block, then the state of each of its clients."""
        self._correct(corrected, states)
        algorithm, replies = self.feed.algorithm, []
        with quarters(self.backend):
            for client in ids:
                kept = self.kept.get(client) or algorithm.fresh(client)
                reply, self.kept[client] = algorithm.local(message, kept, self.feed.client(round, client))
                replies.append(reply)
        return replies, *(self.kept[client] for client in ids)

    def examine(
        self, server: State, exam: Exam, ids: Sequence[int], corrected: Corrected, *states: State
    ) -> Any:
        """The marks of a block."""
        self._correct(corrected, states)
        with quarters(self.backend):
            return examine(self.feed, server, [(client, self.kept.get(client)) for client in ids], exam)

    def _correct(self, corrected: Corrected, states: Sequence[State]) -> None:
        for client in corrected.forgotten:
            self.kept.pop(client, None)
        self.kept.update(zip(corrected.known, states, strict=True))


class Shelf(MutableMapping[int, State]):
    """What clients remember, in the object store; `away` are those whose home has something else or nothing."""

    def __init__(self) -> None:
        self.refs: dict[int, Ref] = {}
        self.away: set[int] = set()

    def __getitem__(self, client: int) -> State:
        found: Any = ray.get(self.refs[client])
        return dict(found)

    def __setitem__(self, client: int, state: State) -> None:
        self.refs[client] = ray.put(state)
        self.away.add(client)

    def __delitem__(self, client: int) -> None:
        raise TypeError("a client's state can be replaced, not removed")

    def __contains__(self, client: object) -> bool:
        return client in self.refs

    def __iter__(self) -> Iterator[int]:
        return iter(self.refs)

    def __len__(self) -> int:
        return len(self.refs)


class Ray:
    """Blocks of clients at their homes; results come in any order and are put into that of the clients."""

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        training: Training,
        workers: int = 0,
        block: int = 10,
        backend: Backend = "autograd",
        gate: Gate | None = None,
    ) -> None:
        self.algorithm, self.block, self.gate, self.backend = algorithm, block, gate, backend
        self.feed = Feed.of(algorithm, federation, training)
        self.kept = Shelf()
        connect(workers)
        bare = federation.data._replace(x=federation.data.x[:0])
        self._given = (
            ray.put(algorithm),
            ray.put(Federation(bare, federation.partition)),
            training,
            ray.put(np.ascontiguousarray(self.feed.x.numpy())),
            backend,
        )
        resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
        processors = max(1, int(resources.get("CPU", 1)))  # an actor beyond them would wait for ever
        count = min(workers or processors, processors)
        self._homes = [self._home() for _ in range(min(count, len(federation.trainers)))]
        self._of = _dealt(self.feed, len(self._homes))

    def adopt(self, kept: MutableMapping[int, State]) -> None:
        """States are copied to where the actors find them."""
        self.kept.update(kept)

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        """Trains the clients where their states are."""
        sent = ray.put(message)
        answers: dict[int, Reply] = {}
        states: dict[int, Ref] = {}
        for block, (found, *refs) in self._run("train", (sent, round), ids, lambda size: 1 + size):
            answers |= zip(block, ray.get(found), strict=True)
            states |= zip(block, refs, strict=True)
        asked = Cohort(tuple(ids), self.algorithm.population, round)
        replies, cohort = gather(answers, message, asked, self.gate)
        self.kept.refs |= {client: states[client] for client in cohort.ids}
        self.kept.away |= set(ids) - set(cohort.ids)
        return replies, cohort

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients where their states are."""
        sent = ray.put(server)
        marks: dict[int, Marks] = {}
        for block, (found,) in self._run("examine", (sent, exam), ids, lambda size: 1):
            marks |= zip(block, ray.get(found), strict=True)
        return [marks[client] for client in ids]

    def answer(self, server: State, examples: Tensor) -> Tensor:
        """The server's network, in this process."""
        with quarters(self.backend):
            return answer(self.feed, server, examples)

    def close(self) -> None:
        """Ends the actors; the cluster stays for the next run of this process."""
        for home in self._homes:
            ray.kill(home)
        self._homes.clear()

    def _home(self) -> Any:
        return ray.remote(Home).options(num_cpus=1).remote(*self._given)

    def _run(
        self, kind: str, given: tuple[Any, ...], ids: Sequence[int], returns: Callable[[int], int]
    ) -> Iterator[tuple[list[int], list[Ref]]]:
        """Gives every home its clients in blocks; yields each block with its results, whatever dies meanwhile."""
        waiting = self._blocks(ids)
        for _ in range(ATTEMPTS):
            flying = [(block, self._send(kind, given, block, returns(len(block)))) for block in waiting]
            waiting = []
            for block, refs in flying:
                try:
                    ray.wait(refs, num_returns=len(refs), fetch_local=False)
                    ray.get(refs[0])
                except RayActorError as error:
                    if error.actor_init_failed:
                        raise LostError(f"an actor of Ray could not begin: {error}") from None
                    waiting.append(block)
                    continue
                except RayTaskError as error:
                    raise error.as_instanceof_cause() from None  # type: ignore[no-untyped-call]
                yield block, refs
            self._rebuild({self._of[client] for block in waiting for client in block})
            if not waiting:
                return
        raise LostError(
            f"the actors of {len(waiting)} blocks of clients died {ATTEMPTS} times. If memory ran out, use fewer "
            "engine.workers or a smaller engine.block; engine.name = 'serial' shows errors in this process."
        )

    def _blocks(self, ids: Sequence[int]) -> list[list[int]]:
        at_home: dict[int, list[int]] = {}
        for client in ids:
            at_home.setdefault(self._of[client], []).append(client)
        cuts = [[own[i : i + self.block] for i in range(0, len(own), self.block)] for own in at_home.values()]
        return [block for round in zip_longest(*cuts) for block in round if block]

    def _send(self, kind: str, given: tuple[Any, ...], block: list[int], returns: int) -> list[Ref]:
        away = [client for client in block if client in self.kept.away]
        known = [client for client in away if client in self.kept]
        forgotten = [client for client in away if client not in self.kept]
        states = [self.kept.refs[client] for client in known]
        self.kept.away -= set(block)
        method = getattr(self._homes[self._of[block[0]]], kind)
        refs = method.options(num_returns=returns).remote(*given, block, Corrected(known, forgotten), *states)
        return [refs] if returns == 1 else list(refs)

    def _rebuild(self, lost: set[int]) -> None:
        for number in lost:
            with suppress(RayActorError):
                ray.kill(self._homes[number])
            self._homes[number] = self._home()
            self.kept.away |= {client for client, home in self._of.items() if home == number}


def connect(workers: int) -> None:
    """Joins the cluster that RAY_ADDRESS names, or starts one on this machine that ends with this process."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    joins = "RAY_ADDRESS" in os.environ
    # A network or a method of the user's own is found where this process finds it.
    paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}}
    ray.init(
        num_cpus=None if joins else workers or cores(),
        include_dashboard=None if joins else False,
        runtime_env=paths,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


def _dealt(feed: Feed, homes: int) -> dict[int, int]:
    """A home for every client that trains, so that all have about the same work."""
    load = [0] * homes
    dealt = {}
    for client in sorted(feed.federation.trainers, key=lambda k: (-feed.steps(k), k)):
        dealt[client] = min(range(homes), key=lambda number: (load[number], number))
        load[dealt[client]] += feed.steps(client)
    return dealt
