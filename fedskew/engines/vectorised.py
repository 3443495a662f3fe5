"""Blocks of clients at once through torch.func.vmap; good for small dense models and for GPUs."""

from collections.abc import MutableMapping, Sequence

import torch
from torch import Tensor

from fedskew import tree
from fedskew.algorithm import Algorithm
from fedskew.augment import Draws
from fedskew.data.federation import Federation, Training
from fedskew.engines.engine import gather
from fedskew.engines.feed import Feed
from fedskew.engines.quarters import quarters
from fedskew.errors import ConfigError
from fedskew.examine import Exam, Marks, answer, examine
from fedskew.gate import Gate
from fedskew.local import functional
from fedskew.tree import State
from fedskew.values import Client, Cohort, Plan, Reply


def check(algorithm: Algorithm) -> None:
    """Raises ConfigError for a network that cannot run in padded blocks."""
    if not algorithm.model.blocks:
        raise ConfigError(
            "engine = 'vectorised' cannot run a network with batch-norm or dropout: a padded batch has no "
            "true statistics, and every client draws for itself. Use engine = 'serial' or 'pool'."
        )


class Vectorised:
    """Clients sorted by number of steps, `block` of them at a time."""

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        training: Training,
        block: int = 10,
        gate: Gate | None = None,
    ) -> None:
        check(algorithm)
        self.algorithm, self.block, self.gate = algorithm, block, gate
        self.feed = Feed.of(algorithm, federation, training)
        self.kept: MutableMapping[int, State] = {}

    def adopt(self, kept: MutableMapping[int, State]) -> None:
        """States are read from, and put into, this mapping from now on."""
        self.kept = kept

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        """Trains the clients block by block."""
        ordered = sorted(ids, key=lambda client: (self.feed.steps(client), client))
        found: dict[int, tuple[Reply, State]] = {}
        with quarters("autograd"):
            for first in range(0, len(ordered), self.block):
                found |= self._run(message, ordered[first : first + self.block], round)
        asked = Cohort(tuple(ids), self.algorithm.population, round)
        replies, cohort = gather({client: found[client][0] for client in ids}, message, asked, self.gate)
        self.kept.update((client, found[client][1]) for client in cohort.ids)
        return replies, cohort

    def examine(self, server: State, ids: Sequence[int], exam: Exam) -> list[Marks]:
        """Evaluates the clients one by one."""
        with quarters("autograd"):
            return examine(self.feed, server, [(client, self.kept.get(client)) for client in ids], exam)

    def answer(self, server: State, examples: Tensor) -> Tensor:
        """The server's network, in this process."""
        with quarters("autograd"):
            return answer(self.feed, server, examples)

    def close(self) -> None:
        """Nothing is held."""

    def _run(self, message: State, ids: Sequence[int], round: int) -> dict[int, tuple[Reply, State]]:
        states = [self.kept.get(client) or self.algorithm.fresh(client) for client in ids]
        known = [{n: t for n, t in state.items() if n != "trained"} for state in states]
        stacked = {name: tree.stack([state[name] for state in known]) for name in known[0]}
        data = self.feed.block(round, ids)
        plans = tuple(Plan(0, 0, plan.draws and Draws(0, 0)) for plan in data.plans)  # type: ignore[arg-type]
        axes = Client(None, None, 0, 0, 0, plans, 0, Plan(0, 0), None)  # type: ignore[arg-type]

        def one(kept: State, client: Client) -> tuple[Reply, State]:
            return self.algorithm.local(message, kept, client, functional)

        reply, kept = torch.func.vmap(one, in_dims=(0, axes))(stacked, data)
        found = {}
        for i, client in enumerate(ids):
            extra = {name: tree.row(part, i) for name, part in reply.extra.items()}
            own = Reply(tree.row(reply.shared, i), extra, *(field[i] for field in reply[2:]))
            found[client] = own, {name: tree.row(part, i) for name, part in kept.items()}
        return found
