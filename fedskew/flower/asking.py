"""Getting answers from clients that may be slow, gone, restarted or broken, within a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from fedskew.flower.letters import Answer, Order, pack_order, to_state, unpack_answer
from fedskew.flower.parcel import Arrays, Post, UnusableError
from fedskew.tree import State

ATTEMPTS = 3  # times a client or a node may fail before an order goes on without it
POLL = 0.2, 2.0  # seconds between looks into the post box: at first, at most
T = TypeVar("T")
log = logging.getLogger("fedskew")


class Waits(NamedTuple):
    """How long to wait, in seconds."""

    timeout: float
    resend: float


@dataclass
class Directory:
    """Which node hosts which clients; the nodes say so themselves, with their first answer."""

    hosts: dict[int, frozenset[int]] = field(default_factory=dict)

    def of(self, node: int, clients: Iterable[int]) -> list[int]:
        """Those of the clients that the node hosts, or may host as long as it has not said."""
        known = self.hosts.get(node)
        return [client for client in clients if known is None or client in known]

    def keep(self, connected: Collection[int]) -> None:
        """Forgets the nodes that are gone, so that others can host their clients."""
        self.hosts = {node: clients for node, clients in self.hosts.items() if node in connected}

    def learn(self, node: int, answer: Answer) -> None:
        """Takes a node's word, except on clients of another connected node."""
        taken = {client for other, clients in self.hosts.items() if other != node for client in clients}
        self.hosts[node] = frozenset(answer.hosts) - taken


@dataclass
class _Flight:
    """A letter to a node that has not been answered; it may have been sent several times."""

    clients: list[int]
    letters: list[str]
    again: float  # when to send it again
    wait: float


class Asking(Generic[T]):
    """One order to many clients; `read` makes a value of a client's state or raises UnusableError."""

    def __init__(
        self, post: Post, directory: Directory, waits: Waits, order: Order, read: Callable[[State], T]
    ) -> None:
        self.post, self.directory, self.waits, self.order, self.read = post, directory, waits, order, read
        self.values: dict[int, T] = {}
        self.refused: dict[int, str] = {}  # answers that cannot be used
        self.missing: dict[int, str] = dict.fromkeys(order.since, "is not connected")
        self._failures: dict[str, int] = {}  # of clients and nodes
        self._flights: dict[int, _Flight] = {}
        self._deadline = time.monotonic() + waits.timeout

    def run(self, enough: int) -> None:
        """Asks until enough clients have given a good answer, none is left to ask, or time is up."""
        pause = POLL[0]
        while time.monotonic() < self._deadline:
            connected = frozenset(self.post.nodes())
            self.directory.keep(connected)
            self._send(connected)
            self._receive()
            if len(self.values) >= enough or not self._open():
                break
            time.sleep(pause)
            pause = min(1.1 * pause, POLL[1])
        late = {client for flight in self._flights.values() for client in flight.clients}
        for client in late & self.missing.keys():
            self.missing[client] = "had not answered when the round went on"

    def _open(self) -> list[int]:
        """Clients that may still answer."""
        return [client for client in self.missing if self._failures.get(f"client {client}", 0) < ATTEMPTS]

    def _send(self, connected: Iterable[int]) -> None:
        now = time.monotonic()
        for node in sorted(connected):
            flight = self._flights.get(node)
            clients = self.directory.of(node, self._open())
            resting = self._failures.get(f"node {node}", 0) >= ATTEMPTS
            if resting or not clients or (flight is not None and now < flight.again):
                continue
            part = self.order._replace(since={client: self.order.since[client] for client in clients})
            letter = self.post.send(node, self.order.kind, pack_order(part), self._deadline - now + 1)
            wait = 2 * flight.wait if flight else self.waits.resend
            sent = [*flight.letters, letter] if flight else [letter]
            if letter:
                self._flights[node] = _Flight(clients, sent, now + wait, wait)

    def _receive(self) -> None:
        senders = {letter: node for node, flight in self._flights.items() for letter in flight.letters}
        for delivery in self.post.collect(senders) if senders else ():
            node = senders[delivery.letter]
            flight = self._flights.pop(node, None)
            if flight is None:
                continue  # an answer to the same order that was sent twice
            try:
                if delivery.parcel is None:
                    raise UnusableError(delivery.error)
                self._take(node, flight.clients, unpack_answer(delivery.parcel))
            except UnusableError as error:
                self._fail_node(node, flight.clients, str(error))

    def _take(self, node: int, asked: Iterable[int], answer: Answer) -> None:
        self.directory.learn(node, answer)
        for client in self.directory.of(node, asked):
            if client in answer.states and client in self.missing:
                self._read(client, answer.states[client])
            elif client in answer.failed:
                self._fail(f"client {client}", [client], answer.failed[client])
            if client in answer.lost:
                log.warning("client %d had lost what it remembered and began again", client)

    def _read(self, client: int, arrays: Arrays) -> None:
        del self.missing[client]
        try:
            self.values[client] = self.read(to_state(arrays))
        except UnusableError as error:
            self.refused[client] = str(error)
            log.warning("client %d is refused: %s", client, error)

    def _fail_node(self, node: int, asked: Sequence[int], reason: str) -> None:
        known = node in self.directory.hosts
        names = [f"client {client}" for client in asked] if known else [f"node {node}"]
        for name in names:
            self._fail(name, asked, reason)

    def _fail(self, name: str, clients: Iterable[int], reason: str) -> None:
        log.warning("%s failed: %s", name, reason)
        self._failures[name] = self._failures.get(name, 0) + 1
        self.missing |= {client: reason for client in clients if client in self.missing}
