"""An engine whose replies are clipped and made noisy before anybody adds them up."""

from collections.abc import MutableMapping, Sequence

import torch
from torch import Tensor

from fedskew import tree
from fedskew.algorithm import Algorithm
from fedskew.engines.engine import Engine, stack_replies
from fedskew.examine import Exam, Marks
from fedskew.privacy import Privacy
from fedskew.tree import State
from fedskew.values import Cohort, Reply


class Private:
    """The clients of another engine; what they remember is theirs and stays as it is."""

    def __init__(self, inner: Engine, algorithm: Algorithm, privacy: Privacy) -> None:
        self.inner, self.algorithm, self.privacy = inner, algorithm, privacy

    @property
    def kept(self) -> MutableMapping[int, State]:
        """What clients remember, by client."""
        return self.inner.kept

    def adopt(self, kept: MutableMapping[int, State]) -> None:
        """Handed on to the other engine."""
        self.inner.adopt(kept)

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        """The other engine's replies, as the server may use them."""
        replies, cohort = self.inner.exchange(message, ids, round)
        if replies is None:
            return None, cohort
        before, seed = message["shared"], self.algorithm.seed
        if self.privacy.kind == "central":
            return self.privacy.released(replies, before, cohort, seed), cohort
        each = [
            self.privacy.sent(_row(replies, k), before, seed, round, client)
            for k, client in enumerate(cohort.ids)
        ]
        return stack_replies(each), cohort

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients where they are."""
        return self.inner.examine(server, ids, exam)

    def answer(self, server: State, examples: Tensor) -> Tensor:
        """The server's network, where the other engine runs it."""
        return self.inner.answer(server, examples)

    def close(self) -> None:
        """Closes the other engine."""
        self.inner.close()


def _row(replies: Reply, k: int) -> Reply:
    """One client's reply of a stack; a method that may be private sends nothing but shared entries."""
    numbers: list[torch.Tensor] = [getattr(replies, name)[k] for name in Reply._fields[2:]]
    return Reply(tree.row(replies.shared, k), {}, *numbers)
