"""The seam between methods and machines."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from fedskew import tree
from fedskew.examine import Exam, Marks
from fedskew.gate import Gate
from fedskew.tree import State
from fedskew.values import Cohort, Reply


class Engine(Protocol):
    """Runs `Algorithm.local` on the participants of a round and keeps what they remember."""

    @property
    def kept(self) -> MutableMapping[int, State]:
        """What clients remember, by client."""

    def adopt(self, kept: MutableMapping[int, State]) -> None:
        """Goes on from what clients remember: in that very mapping, or with a copy in a place of its own."""

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        """Stacked replies in client order, None if there are none; the cohort is who is among them."""

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients' models where they are kept."""

    def answer(self, server: State, examples: Tensor) -> Tensor:
        """Logits of the server's network for examples of the pool, by their positions."""

    def close(self) -> None:
        """Gives back what the engine holds: processes, shared memory."""


def gather(
    answers: Mapping[int, Reply], message: State, cohort: Cohort, gate: Gate | None
) -> tuple[Reply | None, Cohort]:
    """Stacks the answers of a cohort that pass the gate; what the others remember must stay as it was."""
    refused = cohort.refused
    if gate is not None:
        answers, turned_away = gate.admit(list(answers.items()), cohort.ids, message)
        refused += turned_away
    ids = tuple(client for client in cohort.ids if client in answers)
    replies = stack_replies([answers[client] for client in ids]) if ids else None
    return replies, cohort._replace(ids=ids, refused=refused)


def stack_replies(replies: Sequence[Reply]) -> Reply:
    """One reply with a leading client axis."""
    first = replies[0]
    return Reply(
        tree.stack([reply.shared for reply in replies]),
        {name: tree.stack([reply.extra[name] for reply in replies]) for name in first.extra},
        *(torch.stack([getattr(reply, name) for reply in replies]) for name in Reply._fields[2:]),
    )
