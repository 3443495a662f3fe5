"""What a node does with an order: trains or evaluates the clients it hosts, and remembers on its own disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from fedskew import build
from fedskew.config import Config
from fedskew.config import load as load_config
from fedskew.engines.feed import Feed
from fedskew.engines.quarters import flushed
from fedskew.errors import ConfigError, FedskewError
from fedskew.examine import examine
from fedskew.flower.letters import (
    NEVER,
    Answer,
    Order,
    pack_answer,
    pack_marks,
    pack_reply,
    to_arrays,
    unpack_order,
)
from fedskew.flower.memory import Memory, digest
from fedskew.flower.parcel import Arrays, Handler, Parcel, Settings
from fedskew.flower.site import Load
from fedskew.kernels import Backend, using
from fedskew.tree import State
from fedskew.values import Reply


@dataclass(frozen=True)
class Node:
    """One SuperNode: its clients are its number and every `nodes`-th after it."""

    config: Config
    load: Load
    number: int
    nodes: int
    folder: Path  # where its clients' states are
    _feeds: dict[int, Feed] = field(default_factory=dict)

    def answer(self, order: Order) -> Answer:
        """Does what is asked, client by client; what fails with one does not stop the others."""
        wanted = [client for client in sorted(order.since) if client % self.nodes == self.number]
        states: dict[int, Arrays] = {}
        failed: dict[int, str] = {}
        lost: list[int] = []
        for client in wanted:
            try:
                states[client] = to_arrays(_KINDS[order.kind](self, order, client, lost))
            except FedskewError as error:
                failed[client] = str(error)
        return Answer(self.hosts(wanted), states, failed, lost)

    def hosts(self, wanted: Sequence[int] = ()) -> Sequence[int]:
        """All clients of this node, which any of them knows whose data can be read; else those that were wanted."""
        try:
            feed = next(iter(self._feeds.values()), None) or self.feed(self.number)
        except FedskewError:
            return wanted
        return range(self.number, feed.federation.clients, self.nodes)

    def feed(self, client: int) -> Feed:
        """What this client trains on."""
        if client not in self._feeds:
            experiment = build.experiment(self.config)
            federation = self.load(self.config, client)
            algorithm = experiment.algorithm(federation, self.config.seeds[0])
            self._feeds[client] = Feed.of(algorithm, federation, experiment.training)
        return self._feeds[client]

    def _train(self, order: Order, client: int, lost: list[int]) -> State:
        memory, since = Memory(self.folder, order.run, client), order.since[client]
        name = digest(order.state, since)
        with memory.held():
            known = memory.reply(name)
            if known is not None and memory.at(order.round) is not None:
                return known
            feed = self.feed(client)
            kept = self._kept(memory, since, client, lost) or feed.algorithm.fresh(client)
            with flushed(), using(self._kernels):
                reply, kept = feed.algorithm.local(order.state, kept, feed.client(order.round, client))
            packed = pack_reply(self._protected(reply, order, client))
            memory.put(order.round, kept, since)
            memory.put_reply(name, packed)
        return packed

    def _protected(self, reply: Reply, order: Order, client: int) -> Reply:
        """What may leave; it is stored, so that a task that comes again does not show other noise."""
        privacy = build.privacy(self.config)
        if privacy is None or privacy.kind == "central":
            return reply
        return privacy.sent(reply, order.state["shared"], self.config.seeds[0], order.round, client)

    def _evaluate(self, order: Order, client: int, lost: list[int]) -> State:
        feed = self.feed(client)
        kept = self._kept(Memory(self.folder, order.run, client), order.since[client], client, lost)
        with flushed(), using(self._kernels):
            (marks,) = examine(feed, order.state, [(client, kept)], order.exam)
        return pack_marks(marks)

    @property
    def _kernels(self) -> Backend:
        return build.experiment(self.config).engine.kernels

    def _kept(self, memory: Memory, since: int, client: int, lost: list[int]) -> State | None:
        kept = None if since == NEVER else memory.at(since)
        if kept is None and since != NEVER:
            lost.append(client)  # the disk is new or was damaged: the client begins again
        return kept


_KINDS: dict[str, Callable[[Node, Order, int, list[int]], State]] = {
    "train": Node._train,
    "evaluate": Node._evaluate,
}


def handler(config: Path, load: Load) -> Handler:
    """What a client does with a parcel, in this process; examples are read once."""
    nodes: dict[tuple[int, int, Path], Node] = {}

    def handle(parcel: Parcel, settings: Settings) -> Parcel:
        torch.set_num_threads(int(settings.get("threads", 1)))
        place = _place(settings)
        if place not in nodes:
            nodes[place] = Node(load_config(config), load, *place)
        return pack_answer(nodes[place].answer(unpack_order(parcel)))

    return handle


def _place(settings: Settings) -> tuple[int, int, Path]:
    missing = [key for key in ("partition-id", "num-partitions", "state-dir") if key not in settings]
    if missing:
        raise ConfigError(
            f"the SuperNode was started without {missing[0]}: give it --node-config "
            "'partition-id=0 num-partitions=4 state-dir=\"/var/lib/fedskew\"'."
        )
    folder = Path(str(settings["state-dir"])).expanduser()
    return int(settings["partition-id"]), int(settings["num-partitions"]), folder
