"""The engine whose clients are elsewhere: it sends orders, gates the replies, remembers who was counted."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from fedskew.engines.engine import gather
from fedskew.engines.feed import Feed
from fedskew.errors import FedskewError
from fedskew.examine import Exam, Marks, answer
from fedskew.flower.asking import Asking, Directory, Waits
from fedskew.flower.letters import NEVER, Order, unpack_marks, unpack_reply
from fedskew.flower.parcel import Post, UnusableError
from fedskew.gate import Gate
from fedskew.tree import State
from fedskew.values import Cohort, Refusal, Reply

T = TypeVar("T")


class NobodyError(FedskewError):
    """A round to which no client gave any answer."""


class Remote:
    """Clients at the nodes of a post; `kept` holds of each the round after which it has its state."""

    def __init__(
        self, feed: Feed, post: Post, run: str, waits: Waits, gate: Gate | None, needed: int | None = None
    ) -> None:
        self.feed, self.post, self.run, self.waits, self.gate = feed, post, run, waits, gate
        self.needed = needed  # answers after which a round goes on; None for all
        self.kept: dict[int, State] = {}
        self._directory = Directory()

    def adopt(self, kept: MutableMapping[int, State]) -> None:
        """States are copied to where this engine has its receipts."""
        self.kept.update(kept)

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        """Trains the clients where they are; which of their states counts is decided here."""

        def read(state: State) -> Reply:
            reply = unpack_reply(state)
            reason = self.gate.wrong(reply, message) if self.gate else ""
            if reason:
                raise UnusableError(reason)
            return reply

        asking = self._ask(Order("train", self.run, round, self._since(ids), message), read, self.needed)
        if not asking.values and not asking.refused:
            raise NobodyError(_nobody(round, asking.missing))
        why = {**asking.missing, **asking.refused}
        refused = tuple(Refusal(client, why[client]) for client in ids if client in why)
        asked = Cohort(tuple(ids), self.feed.algorithm.population, round, refused)
        replies, cohort = gather(asking.values, message, asked, self.gate)
        self.kept |= {client: receipt(round) for client in cohort.ids}
        return replies, cohort

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients where they are; one that does not answer has empty marks."""
        blank = self._blank(exam)

        def read(state: State) -> Marks:
            marks = unpack_marks(state)
            if not _alike(marks, blank):
                raise UnusableError("its marks have other shapes or types than asked")
            return marks

        order = Order("evaluate", self.run, 0, self._since(ids), {"shared": server["shared"]}, exam)
        found = self._ask(order, read).values if ids else {}
        return [found.get(client, blank) for client in ids]

    def answer(self, server: State, examples: Tensor) -> Tensor:
        """The server's network, at the server."""
        return answer(self.feed, server, examples)

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, order: Order, read: Callable[[State], T], needed: int | None = None) -> Asking[T]:
        asking = Asking(self.post, self._directory, self.waits, order, read)
        asking.run(len(order.since) if needed is None else min(needed, len(order.since)))
        return asking

    def _since(self, ids: Sequence[int]) -> dict[int, int]:
        return {client: _round(self.kept[client]) if client in self.kept else NEVER for client in ids}

    def _blank(self, exam: Exam) -> Marks:
        size, tested = self.feed.federation.classes, len(self.feed.federation.data.test)
        matrices = torch.zeros(len(exam.names), size, size, dtype=torch.int64)
        ballot = torch.zeros(tested, size, dtype=torch.float64) if exam.ballot else None
        told = torch.full((len(self.feed.algorithm.told),), torch.nan, dtype=torch.float64)
        return Marks(matrices, matrices if exam.whole else None, ballot, told, seen=False)


def receipt(round: int) -> State:
    """What the server keeps of a client: the last round in which its reply counted."""
    return {"receipt": {"round": torch.tensor(round)}}


def _round(state: State) -> int:
    return int(state["receipt"]["round"])


def _alike(marks: Marks, blank: Marks) -> bool:
    pairs = zip(marks[:-1], blank[:-1], strict=True)
    same = (
        (a.shape, a.dtype) == (b.shape, b.dtype) if a is not None and b is not None else a is b
        for a, b in pairs
    )
    return all(same) and bool((marks.home >= 0).all()) and not bool(marks.told.isinf().any())


def _nobody(round: int, missing: dict[int, str]) -> str:
    client, reason = next(iter(missing.items()))
    return (
        f"round {round}: none of {len(missing)} clients answered; client {client}: {reason}. See that the "
        "SuperNodes run and reach the SuperLink, then `fedskew flower run --resume`."
    )
