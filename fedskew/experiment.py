"""Data, split, model, method, engine, rounds and seed put together: what is run and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from fedskew.algorithm import Algorithm
from fedskew.data import artefact, registry
from fedskew.data.arrays import from_arrays
from fedskew.data.dataset import Dataset
from fedskew.data.federation import Federation, Training, centralised, with_shared_data
from fedskew.data.partition import Labels, Natural, Partition, Scheme, hold_out, split
from fedskew.engines.choose import Choice, engine, resolve
from fedskew.engines.device import placed
from fedskew.engines.engine import Engine
from fedskew.engines.feed import Feed
from fedskew.engines.private import Private
from fedskew.engines.quarters import quarters
from fedskew.errors import ConfigError
from fedskew.evaluate import Evaluator, Record, Timetable
from fedskew.fit import Round, fit
from fedskew.gate import Limits
from fedskew.method import Method
from fedskew.methods import compose
from fedskew.models.module import factory
from fedskew.models.registry import model
from fedskew.privacy import Account, Privacy
from fedskew.ranges import Count, Fraction, SomeFraction, enforce
from fedskew.results import Result, Results
from fedskew.step import SGD
from fedskew.tree import State

Network = str | Callable[[int], nn.Module]


@dataclass(frozen=True)
class Experiment:
    """One setting; names and objects are both accepted.

    `data` is a dataset's name, a Dataset, or arrays (x, y) or (x, y, client of each example).
    `split` is a scheme, a partition, or the path of a saved one.
    `model` is a network's name or a function from the number of outputs to an nn.Module.
    `head` names the modules of such a network's head; without it, that is the linear layer declared last.
    `method` is a preset, several joined by '+', or a Method.
    """

    data: str | Dataset | tuple[Any, ...] = "digits"
    split: Scheme | Partition | Path | None = None
    model: Network = "mlp"
    method: str | Method = "fedavg"
    rounds: Count = 50
    participation: SomeFraction = 0.5
    training: Training = Training(epochs=5, batch=32)
    solver: SGD = SGD(lr=0.05)
    timetable: Timetable = Timetable()
    also: tuple[str, ...] = ()
    engine: Choice = Choice()
    gate: Limits | None = None  # refuses bad replies; without it a client that diverges ends the run
    privacy: Privacy | None = None
    name: str = ""
    dtype: torch.dtype = torch.float32
    data_options: dict[str, Any] = field(default_factory=dict)
    model_options: dict[str, Any] = field(default_factory=dict)
    head: tuple[str, ...] = ()
    data_dir: str | None = None
    split_seed: int | None = None
    novel: Fraction = 0.0
    shared_data: Fraction = 0.0
    centralised: bool = False

    def __post_init__(self) -> None:
        enforce(self, "rounds", "participation", "novel", "shared_data")
        if not isinstance(self.split, Scheme | Partition | Path | None):
            raise ConfigError(
                f"Experiment.split = {self.split!r}: should be a scheme, e.g. Dirichlet(clients=20, beta=0.1), "
                "a partition, or the Path of a saved one."
            )
        named = isinstance(self.model, str)
        if self.head and named:
            raise ConfigError(f"Experiment.head = {self.head!r}: model {self.model} knows its own head.")
        if self.model_options and not named:
            raise ConfigError(
                "Experiment.model_options: a network of one's own takes none; set them in its function."
            )
        if (self.data_options or self.data_dir) and not isinstance(self.data, str):
            raise ConfigError(
                "Experiment.data_options and data_dir are for a dataset's name, not for arrays."
            )
        method = self._method
        for name, value, kind, such in (
            ("method", method, Method, "the name of a preset"),
            ("engine", self.engine, Choice, "Choice('serial')"),
            ("training", self.training, Training, "Training(epochs=5, batch=32)"),
            ("solver", self.solver, SGD, "SGD(lr=0.05)"),
            ("timetable", self.timetable, Timetable, "Timetable(every=1)"),
        ):
            if not isinstance(value, kind):
                raise ConfigError(f"Experiment.{name} = {value!r}: should be a {kind.__name__}, e.g. {such}.")
        for name in self.also:
            method.check_model(name)

    @property
    def _method(self) -> Method:
        return compose(self.method) if isinstance(self.method, str) else self.method

    @property
    def label(self) -> str:
        """What the method is called in tables."""
        return self.name or (self.method if isinstance(self.method, str) else "method")

    def dataset(self) -> Dataset:
        """The pool of examples."""
        if isinstance(self.data, str):
            return registry.load(self.data, self.data_options, self.data_dir)
        if isinstance(self.data, Dataset):
            return self.data
        return from_arrays(*self.data)

    def partition(self, data: Dataset, seed: int) -> Partition:
        """Who owns what under this seed."""
        own = seed if self.split_seed is None else self.split_seed
        if isinstance(self.split, Partition):
            made = self.split
        elif isinstance(self.split, Path):
            made = artefact.load(self.split, data.y.numpy()).partition
        else:
            scheme = self.split or (Labels(per_client=2, clients=20) if data.owners is None else Natural())
            owners = None if data.owners is None else np.asarray(data.owners)
            made = split(scheme, data.y.numpy(), data.train, data.test, own, owners)
        return made if made.novel else hold_out(made, self.novel, own)

    def federation(self, data: Dataset, seed: int) -> Federation:
        """The data side of a run."""
        made = Federation(data, self.partition(data, seed))
        empty = [client for client in made.trainers if not len(made.partition.train[client])]
        if empty:
            raise ConfigError(
                f"client {empty[0]} has no training example ({len(empty)} such clients): leave it out of the "
                "partition, or name it among the novel ones."
            )
        if self.shared_data:
            made = with_shared_data(made, self.shared_data, seed)
        return centralised(made) if self.centralised else made

    def algorithm(self, federation: Federation, seed: int) -> Algorithm:
        """The method bound to the network."""
        method = self._method
        shape = tuple(federation.data.x.shape[1:])
        if isinstance(self.model, str):
            build = model(self.model, self.model_options, shape)
        else:
            build = factory(self.model, self.head)
        made = Algorithm(
            method,
            method.network.build(build, federation.classes),
            self.solver,
            len(federation.trainers),
            self.participation * self.rounds,
            seed,
            keep_trained=bool(self.timetable.personal) or any(part.offers for part in method.parts),
            dtype=self.dtype,
        )
        if self.privacy:
            self.privacy.check(made)
        return made

    def choice(self, seed: int, data: Dataset) -> Choice:
        """The engine that suits this setting."""
        return self._resolved(self._feed(seed, data))

    def _resolved(self, feed: Feed) -> Choice:
        asked = len(feed.federation.participants(feed.algorithm.seed, 0, self.participation))
        if self.gate and self.gate.minimum > asked:
            raise ConfigError(
                f"gate.minimum = {self.gate.minimum}: a round asks no more than {asked} clients."
            )
        return resolve(self.engine, feed.algorithm, feed)

    def session(self, seed: int, data: Dataset | None = None) -> Session:
        """Everything one seed needs, built and ready."""
        feed = self._feed(seed, data or self.dataset())
        chosen = self._resolved(feed)
        made = engine(chosen, feed.algorithm, feed, self.gate)
        guarded = Private(made, feed.algorithm, self.privacy) if self.privacy else made
        return Session(replace(self, engine=chosen), feed, guarded)

    def _feed(self, seed: int, data: Dataset) -> Feed:
        federation = self.federation(data, seed)
        sides = placed(self.algorithm(federation, seed), federation, self.engine.device)
        return Feed.of(*sides, self.training)

    def fit(
        self, seeds: Sequence[int] = (0,), on_round: Callable[[int, Record], None] | None = None
    ) -> Results:
        """Runs every seed and returns what was measured."""
        if isinstance(seeds, int) or len(set(seeds)) < len(seeds):
            raise ConfigError(f"seeds = {seeds!r}: name every seed once, e.g. range(3) or [0, 7].")
        data = self.dataset()
        found = []
        for seed in seeds:
            records = []
            with self.session(seed, data) as session:
                for step in session.rounds():
                    records.append(step.record)
                    if on_round:
                        on_round(seed, step.record)
            found.append(Result(self.label, self.label, seed, tuple(records)))
        return Results(tuple(found))

    def using(self, method: str | Method, name: str = "") -> Experiment:
        """The same setting with another method."""
        return replace(self, method=method, name=name)


class Passed(NamedTuple):
    """One round as it happened, with its records."""

    record: Record
    clients: Record
    round: Round


@dataclass
class Session:
    """One seed of an experiment in progress."""

    experiment: Experiment
    feed: Feed
    engine: Engine

    def rounds(self, start: int = 0, server: State | None = None) -> Iterator[Passed]:
        """Trains and evaluates round after round, from the beginning or from a checkpoint."""
        plan = self.experiment
        evaluator = Evaluator(self.feed.algorithm, self.engine, self.feed, plan.timetable, plan.also)
        federation = self.feed.federation
        steps = fit(
            self.feed.algorithm, self.engine, federation, plan.rounds, plan.participation, start, server
        )
        account = Account(plan.privacy, self._asked) if plan.privacy else None
        for round in steps:
            with quarters(plan.engine.kernels):
                record, clients = evaluator.record(round, plan.rounds)
            yield Passed(record | (account.record(round.number) if account else {}), clients, round)

    def _asked(self, round: int) -> Sequence[int]:
        federation, seed = self.feed.federation, self.feed.algorithm.seed
        return federation.participants(seed, round, self.experiment.participation)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()


def run(
    data: str | Dataset | tuple[Any, ...] = "digits",
    method: str | Method = "fedavg",
    model: Network = "mlp",
    split: Scheme | Partition | None = None,
    rounds: int = 50,
    seeds: Sequence[int] = (0,),
) -> Results:
    """Runs one method with sensible defaults."""
    return Experiment(data=data, split=split, model=model, method=method, rounds=rounds).fit(seeds)
