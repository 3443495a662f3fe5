"""From a checked configuration to an experiment that can run."""

from dataclasses import replace
from pathlib import Path

import torch

from fedskew.config import Config
from fedskew.data import partition
from fedskew.data.federation import Training
from fedskew.engines.choose import Choice
from fedskew.errors import ConfigError
from fedskew.evaluate import Timetable
from fedskew.experiment import Experiment
from fedskew.gate import Limits
from fedskew.method import Method
from fedskew.methods import table
from fedskew.parts.aggregates import Mean
from fedskew.privacy import Privacy
from fedskew.step import SGD


def experiment(config: Config) -> Experiment:
    """The experiment a configuration describes."""
    train = config.train
    return Experiment(
        data=config.data.name,
        data_options=config.data.options,
        data_dir=config.data.dir,
        split=_split(config),
        split_seed=config.split.seed,
        novel=config.split.novel,
        shared_data=config.split.shared_data,
        centralised=config.split.centralised,
        model=config.model.name,
        model_options=config.model.options,
        method=method(config),
        name=config.method.title,
        rounds=train.rounds,
        participation=train.participation,
        training=Training(train.epochs, train.batch, train.min_steps, train.augment == "crop-flip"),
        solver=SGD(train.lr, train.momentum, train.weight_decay, train.clip, train.warmup),
        timetable=Timetable(config.evaluate.every, config.evaluate.personal),
        also=config.evaluate.also,
        engine=Choice(**config.engine.model_dump()),
        gate=limits(config) if config.gate.enabled else None,
        privacy=privacy(config),
        dtype=getattr(torch, config.dtype),
    )


def limits(config: Config) -> Limits:
    """What a reply may hold at most."""
    return Limits(config.gate.norm, config.gate.largest, config.gate.minimum)


def privacy(config: Config) -> Privacy | None:
    """How replies are protected, if at all."""
    table = config.privacy
    if table.kind == "none":
        return None
    if table.kind == "local" and config.evaluate.personal:
        raise ConfigError(
            "privacy.kind = 'local': clients would tell how their own models do on each class, without noise. "
            "Set evaluate.personal = 0."
        )
    return Privacy(table.kind, table.clip, table.noise, table.delta, table.secret)


def method(config: Config) -> Method:
    """The method with the configuration's own parts and weights."""
    made = table({"preset": config.method.preset, "parts": config.method.options})
    if config.method.personal:
        made = replace(made, personal=config.method.personal)
    if config.method.weight and isinstance(made.aggregate, Mean):
        made = replace(made, aggregate=Mean(config.method.weight))
    return made


def _split(config: Config) -> partition.Scheme | Path:
    if config.split.file:
        return Path(config.split.file)
    return partition.scheme(config.split.scheme, config.split.options)
