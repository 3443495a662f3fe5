"""One client after the other, in this process; with plain autograd it is the reference."""

from collections.abc import MutableMapping, Sequence

from torch import Tensor

from fedskew.algorithm import Algorithm
from fedskew.data.federation import Federation, Training
from fedskew.engines.engine import gather
from fedskew.engines.feed import Feed
from fedskew.engines.quarters import keep_memory, quarters
from fedskew.examine import Exam, Marks, answer, examine
from fedskew.gate import Gate
from fedskew.kernels import Backend
from fedskew.tree import State
from fedskew.values import Cohort, Reply


class Serial:
    """Clients in turn, in this process."""

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        training: Training,
        gate: Gate | None = None,
        backend: Backend = "autograd",
    ) -> None:
        self.algorithm, self.gate, self.backend = algorithm, gate, backend
        keep_memory()
        self.feed = Feed.of(algorithm, federation, training)
        self.kept: MutableMapping[int, State] = {}

    def adopt(self, kept: MutableMapping[int, State]) -> None:
        """States are read from, and put into, this mapping from now on."""
        self.kept = kept

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        """Trains the clients one by one."""
        answers: dict[int, Reply] = {}
        states: dict[int, State] = {}
        with quarters(self.backend):
            for client in ids:
                kept = self.kept.get(client) or self.algorithm.fresh(client)
                data = self.feed.client(round, client)
                answers[client], states[client] = self.algorithm.local(message, kept, data)
        asked = Cohort(tuple(ids), self.algorithm.population, round)
        replies, cohort = gather(answers, message, asked, self.gate)
        self.kept.update((client, states[client]) for client in cohort.ids)
        return replies, cohort

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients one by one."""
        with quarters(self.backend):
            return examine(self.feed, server, [(client, self.kept.get(client)) for client in ids], exam)

    def answer(self, server: State, examples: Tensor) -> Tensor:
        """The server's network, in this process."""
        with quarters(self.backend):
            return answer(self.feed, server, examples)

    def close(self) -> None:
        """Nothing is held."""
