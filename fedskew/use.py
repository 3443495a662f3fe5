"""A trained model taken out of its run: the global one or a client's own, ready to predict or to leave."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from fedskew import build, naming, runs
from fedskew.algorithm import Algorithm
from fedskew.config import Config, parse
from fedskew.data import registry
from fedskew.data.folder import Folder
from fedskew.data.table import read_csv, read_parquet
from fedskew.engines.feed import Feed
from fedskew.errors import ConfigError
from fedskew.models.outside import OneVsAll, Scaled
from fedskew.models.registry import network
from fedskew.parts import networks
from fedskew.store import checkpoint, layout
from fedskew.store.checkpoint import Checkpoint
from fedskew.store.reader import RunReader
from fedskew.tree import Tree

ADAPTED = ("adapted", "adapted_step")  # models that are made when they are asked for
TABLES = ("csv", "parquet")  # datasets whose inputs have names


class Scale(NamedTuple):
    """How raw inputs became what the network was trained on: (x - mean) / std, by channel."""

    mean: list[float]
    std: list[float]


class Taken(NamedTuple):
    """A trained network and what one must know to use it."""

    network: nn.Module  # plain torch, in evaluation mode; takes inputs as they were in training
    scale: Scale | None  # None where the inputs were taken as they are
    shape: tuple[int, ...]  # of one example
    classes: tuple[str, ...]
    who: str
    client: int | None
    clients: tuple[str, ...]  # their names; empty where they have only numbers
    place: Path
    round: int  # counts from 0
    config: Config
    counts: tuple[tuple[int, ...], ...]  # [K, C] training examples
    inputs: tuple[str, ...]  # the input columns in their order; empty where inputs have no names

    @property
    def module(self) -> nn.Module:
        """The network that takes raw inputs."""
        if self.scale is None:
            return self.network
        wide = (-1, *(1 for _ in self.shape[1:]))
        mean, std = (torch.tensor(v, dtype=torch.float64).reshape(wide) for v in self.scale)
        return Scaled(self.network, mean, std, getattr(torch, self.config.dtype)).eval()


def take(place: Path | str, client: int | str | None = None) -> Taken:
    """The global model of a run as far as it has come, or the personal model of one client, by number or name."""
    place = Path(place)
    reader = RunReader(place)
    config = parse(reader.config(), str(place / layout.CONFIG))
    found = checkpoint.load(place)
    if found is None:
        raise ConfigError(f"{place} has not finished a round. Continue it: fedskew resume {place}.")
    deployed = not reader.began_with(runs.PARTITION)
    if deployed and client is not None:
        raise ConfigError(
            f"{place}: the clients of a deployment have their models at home. Take the global one."
        )
    plan = build.experiment(config.changed({} if deployed else {"split.file": str(place / runs.PARTITION)}))
    data = plan.dataset()
    federation = plan.federation(data, config.seeds[0])
    algorithm = plan.algorithm(federation, config.seeds[0])
    runs.check_fits(found.server, algorithm.init(), place)
    feed = Feed.of(algorithm, federation, plan.training)
    names = naming.recorded(reader)
    who = None if client is None else naming.find(names, federation.clients, client)
    tree = _overall(algorithm, found, place) if who is None else _own(feed, found, who)
    shape = tuple(data.x.shape[1:])
    return Taken(
        _network(algorithm, config, tree, shape),
        _scale(config),
        shape,
        data.classes,
        "the global model" if who is None else _name(algorithm, found, who, naming.label(names, who)),
        who,
        names,
        place,
        found.round,
        config,
        tuple(map(tuple, federation.counts.tolist())),
        _inputs(config) if config.data.name in TABLES else (),
    )


def _inputs(config: Config) -> tuple[str, ...]:
    options = config.data.options
    path = Folder(Path(config.data.dir) if config.data.dir else None).locate(options["path"])
    table = (
        read_parquet(path) if config.data.name == "parquet" else read_csv(path, options.get("separator", ","))
    )
    special = {options["label"], options.get("client"), options.get("test"), *options.get("drop", ())}
    return tuple(name for name in table.columns if name not in special)


def _overall(algorithm: Algorithm, found: Checkpoint, place: Path) -> Tree:
    if algorithm.answers_together:
        raise ConfigError(
            f"{place}: this method has no global model; its clients answer together. Take the model of one "
            "of them: --client 0."
        )
    return algorithm.overall(found.server)


def _own(feed: Feed, found: Checkpoint, client: int) -> Tree:
    kept = found.kept.get(client)
    if kept is None and feed.algorithm.private:
        raise ConfigError(
            f"client {client} has not taken part yet, and with this method a part of its network is its own: "
            "that part is untrained. Take the model of a client that has taken part."
        )
    return feed.algorithm.personal(found.server, kept, feed.idle(client))


def _name(algorithm: Algorithm, found: Checkpoint, client: int, label: str) -> str:
    own = algorithm.method.home
    if client in found.kept or own in ADAPTED:
        return f"the personal model of client {label} ({own})"
    return f"the global model, since client {label} has not taken part yet"


def _network(algorithm: Algorithm, config: Config, tree: Tree, shape: tuple[int, ...]) -> nn.Module:
    """The tree as a module of torch; built without weights, so that a missing entry fails."""
    kind, made = algorithm.method.network, network(config.model.name, config.model.options)
    with torch.device("meta"):
        if isinstance(kind, networks.OneVsAll):
            outputs = 1 if kind.head == "sigmoid" else 2
            components = [made.module(shape, outputs) for _ in range(algorithm.model.classes)]
            module: nn.Module = OneVsAll(components, outputs)
            rows = enumerate(zip(*tree.values(), strict=True))
            named = [(f"components.{c}", dict(zip(tree, row, strict=True))) for c, row in rows]
            tree = {f"{prefix}.{name}": value for prefix, entries in named for name, value in entries.items()}
        else:
            module = made.module(shape, algorithm.model.classes)
    module.load_state_dict({name: value.clone() for name, value in tree.items()}, assign=True)
    return module.eval().requires_grad_(False)


def _scale(config: Config) -> Scale | None:
    """The mean and deviation of your own data; published data have constants of their own."""
    options = config.data.options
    source = registry.dataset(config.data.name, options)
    if not vars(source).get("normalise", False):
        return None
    raw = registry.load(config.data.name, {**options, "normalise": False}, config.data.dir)
    own = raw.x[torch.from_numpy(raw.train)].double().transpose(0, 1).flatten(1)
    std = own.std(1, correction=0)
    return Scale(own.mean(1).tolist(), torch.where(std > 0, std, 1.0).tolist())
