"""The seam between methods and machines."""

from collections.abc import MutableMapping, Sequence
from typing import Protocol

import torch

from fedskew import tree
from fedskew.examine import Exam, Marks
from fedskew.tree import State
from fedskew.values import Cohort, Reply


class Engine(Protocol):
    """Runs `Algorithm.local` on the participants of a round and keeps what they remember."""

    kept: MutableMapping[int, State]

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        """Stacked replies in client order; a client that failed is not in the cohort, None if all did."""

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients' models where they are kept."""

    def close(self) -> None:
        """Gives back what the engine holds: processes, shared memory."""


def stack_replies(replies: Sequence[Reply]) -> Reply:
    """One reply with a leading client axis."""
    first = replies[0]
    return Reply(
        tree.stack([reply.shared for reply in replies]),
        {name: tree.stack([reply.extra[name] for reply in replies]) for name in first.extra},
        *(torch.stack([reply[i] for reply in replies]) for i in range(2, len(Reply._fields))),
    )
