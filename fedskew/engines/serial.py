"""The reference engine: one client after the other, plain autograd."""

from collections.abc import Sequence

from fedskew.data.federation import Federation, Training
from fedskew.algorithm import Algorithm
from fedskew.engines.engine import stack_replies
from fedskew.engines.feed import Feed
from fedskew.examine import Exam, Marks, examine
from fedskew.tree import State
from fedskew.values import Cohort, Reply


class Serial:
    """Clients in turn, in this process."""

    def __init__(self, algorithm: Algorithm, federation: Federation, training: Training) -> None:
        self.algorithm = algorithm
        self.feed = Feed.of(algorithm, federation, training)
        self.kept: dict[int, State] = {}

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply, Cohort]:
        """Trains the clients one by one."""
        replies = []
        for client in ids:
            kept = self.kept.get(client) or self.algorithm.fresh(client)
            reply, self.kept[client] = self.algorithm.local(message, kept, self.feed.client(round, client))
            replies.append(reply)
        return stack_replies(replies), Cohort(tuple(ids), self.algorithm.population, round)

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients one by one."""
        return [examine(self.algorithm, self.feed, server, self.kept.get(k), k, exam) for k in ids]

    def close(self) -> None:
        """Nothing is held."""
