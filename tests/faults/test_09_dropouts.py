"""Row 9: clients that drop out, none to all of a round, and stragglers: only the survivors count, nothing hangs."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
import torch
from counting import Tally, part_of
from references import world
from references.runs import PRESETS, algorithm

from fedskew.algorithm import Algorithm
from fedskew.engines.engine import gather
from fedskew.engines.serial import Serial
from fedskew.store import codec
from fedskew.tree import State
from fedskew.values import Cohort, Reply

CLIENTS = range(len(world.COUNTS))
ROUNDS = 3


class Losing(Serial):
    """Clients in turn, of whom only some answer, in any order."""

    answering: tuple[tuple[int, ...], ...] = ()

    def exchange(self, message: State, ids: Sequence[int], round: int) -> tuple[Reply | None, Cohort]:
        answers, states = {}, {}
        for client in self.answering[round]:
            kept = self.kept.get(client) or self.algorithm.fresh(client)
            answers[client], states[client] = self.algorithm.local(
                message, kept, self.feed.client(round, client)
            )
        asked = Cohort(tuple(ids), self.algorithm.population, round)
        replies, cohort = gather(answers, message, asked, None)
        self.kept |= {client: states[client] for client in cohort.ids}
        return replies, cohort


def trained(bound: Algorithm, engine: Serial, asked: Sequence[Sequence[int]]) -> list[bytes]:
    """The server after each round, then what every client remembers."""
    server, seen = bound.init(), []
    for round, ids in enumerate(asked):
        replies, cohort = engine.exchange(bound.message(server, round), ids, round) if ids else (None, None)
        if replies is not None and cohort is not None:
            server = bound.step(server, replies, cohort)
        seen.append(codec.encode(server))
    return [*seen, *(codec.encode(engine.kept[client]) for client in sorted(engine.kept))]


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_only_survivors_count(count: int, tally: Tally) -> None:
    rng = random.Random(count)
    for number in range(part_of(count)):
        method = list(PRESETS)[number % len(PRESETS)]
        bound = algorithm(PRESETS[method], dtype=torch.float32)
        survivors = [sorted(rng.sample(CLIENTS, rng.randint(0, len(CLIENTS)))) for _ in range(ROUNDS)]
        survivors[number % ROUNDS] = []  # in some round nobody is left
        with tally.case():
            losing = Losing(bound, world.federation(), world.TRAINING)
            losing.answering = tuple(tuple(rng.sample(alive, len(alive))) for alive in survivors)
            found = trained(bound, losing, [CLIENTS] * ROUNDS)
            calm = trained(bound, Serial(bound, world.federation(), world.TRAINING), survivors)
            assert found == calm, method
            empty = number % ROUNDS
            assert found[empty] == (found[empty - 1] if empty else codec.encode(bound.init()))
            tally.add("clients lost", sum(len(CLIENTS) - len(alive) for alive in survivors))


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_nodes_of_a_deployment(count: int, tmp_path: Path, tally: Tally) -> None:
    """Nodes of Flower that do not answer, or answer when the round is over; each hosts two clients."""
    pytest.importorskip("flwr", reason="the extra `flower` is not installed")
    from flower_nodes import NODES, DirectPost, config, load

    from fedskew import build
    from fedskew.flower import serve
    from fedskew.flower.letters import unpack_order
    from fedskew.flower.parcel import Delivery, Parcel
    from fedskew.flower.remote import NobodyError
    from fedskew.store import checkpoint

    class Tiresome(DirectPost):
        """Nodes of `mute` never answer in a round; those of `late` when the next one has begun."""

        def __init__(self, *given: object) -> None:
            DirectPost.__init__(self, *given)  # type: ignore[arg-type]
            self.round, self.mute, self.late = 0, [frozenset[int]()] * ROUNDS, [frozenset[int]()] * ROUNDS
            self.held: dict[str, int] = {}

        def send(self, node: int, kind: str, parcel: Parcel, seconds: float) -> str:
            self.round = unpack_order(parcel).round
            letter = DirectPost.send(self, node, kind, parcel, seconds)
            if NODES[node] in self.mute[self.round]:
                del self.replies[letter]
            if NODES[node] in self.late[self.round]:
                self.held[letter] = self.round
            return letter

        def collect(self, letters: Collection[str]) -> Sequence[Delivery]:
            return DirectPost.collect(self, [one for one in letters if self.held.get(one) != self.round])

    settings = config("scaffold", **{"flower.timeout": 0.3, "flower.resend": 9.0, "train.participation": 1.0})
    rng = random.Random(count)
    for number in range(part_of(count)):
        folder = tmp_path / str(number)
        folder.mkdir()
        post = Tiresome(settings, folder)
        lost = [rng.sample(range(4), rng.randint(0, 3)) for _ in range(ROUNDS)]
        if number % 5 == 0:
            lost[-1] = [0, 1, 2, 3]
        post.late = [frozenset(nodes[:1]) for nodes in lost]
        post.mute = [frozenset(nodes[1:]) for nodes in lost]
        survivors = [[k for k in CLIENTS if k % 4 not in nodes] for nodes in lost]
        with tally.case():
            if number % 5 == 0:
                with pytest.raises(NobodyError, match="had not answered"):
                    serve.serve(settings, folder / "run", load, post, resume=False)
            else:
                serve.serve(settings, folder / "run", load, post, resume=False)
            experiment = build.experiment(settings)
            bound = experiment.algorithm(load(settings, None), settings.seeds[0])
            calm = trained(bound, Serial(bound, load(settings, None), experiment.training), survivors)
            point = checkpoint.load(folder / "run")
            assert point is not None
            assert codec.encode(point.server) == calm[ROUNDS - 1]
            tally.add("nodes lost", sum(map(len, lost)))


def test_a_straggler_of_the_pool_is_given_up(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that never ends is an error after its time, not a run that hangs."""
    import time

    from fedskew.engines.crew import WorkerError
    from fedskew.engines.pool import Pool

    class Stuck(Algorithm):
        def local(self, message: State, kept: State, data: object, *more: object) -> tuple[Reply, State]:
            time.sleep(3600)
            raise AssertionError

    bound = algorithm(PRESETS["fedavg"])
    stuck = Stuck(**{name: getattr(bound, name) for name in Algorithm.__dataclass_fields__})
    engine = Pool(stuck, world.federation(), world.TRAINING, 1, patience=0.3)
    clock = time.monotonic()
    with tally.case(), pytest.raises(WorkerError, match="took more than"):
        engine.exchange(bound.message(bound.init(), 0), (0, 1), 0)
    tally.largest("seconds until given up", round(time.monotonic() - clock, 1))
    engine.close()
