"""The settings of an experiment: TOML <-> checked values. Nothing here imports torch."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from fedskew.errors import ConfigError, reason, unknown
from fedskew.ranges import Count, Decay, Fraction, Natural, NonNegative, Positive, Probability, SomeFraction


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=False)


def _finite(value: object) -> object:
    """An option; what is not finite would be lost when it is written."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("should be a finite number")
    for one in inside:
        _finite(one)
    return value


class _Open(BaseModel):
    """A table whose further keys are the options of what it names."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Annotated[Any, AfterValidator(_finite)]] = Field(init=False)

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class DataTable(_Open):
    """Which dataset, from where; further keys are its options."""

    name: str = Field("digits", description="`fedskew datasets` lists them")
    dir: str | None = Field(None, description="folder with the dataset's files; default $FEDSKEW_DATA")


class SplitTable(_Open):
    """How examples are dealt to clients; further keys are the scheme's options."""

    scheme: str = Field(
        "labels", description="iid, labels, shards, dirichlet, incomplete, powerlaw or natural"
    )
    seed: Natural | None = Field(None, description="seed of the partition; default: the run's seed")
    novel: Fraction = Field(0.0, description="share of clients that never train; at least one does")
    shared_data: Fraction = Field(
        0.0, description="examples every client gets besides its own, as a share of a mean client"
    )
    centralised: bool = Field(False, description="one client holds everything: an upper bound")
    file: str | None = Field(None, description="a saved partition to take instead of drawing one")


class ModelTable(_Open):
    """Which network; further keys are its options."""

    name: str = Field("mlp", description="`fedskew models` lists them")


class MethodTable(_Open):
    """A preset or several joined by '+'; further tables are parts that replace or join the preset's."""

    preset: str = Field("fedavg", description="`fedskew methods` lists them; join with +")
    personal: str | None = Field(
        None, description="which model a client predicts with; default: the method's"
    )
    weight: Literal["samples", "uniform"] | None = Field(
        None, description="weights of a plain mean; default: the method's"
    )

    @property
    def title(self) -> str:
        """What tables call it: the preset, with the parts that were put into it."""
        return f"{self.preset} with {', '.join(self.options)}" if self.options else self.preset


class TrainTable(_Closed):
    """How much and how clients train."""

    rounds: Count = Field(50, description="how often the server averages")
    participation: SomeFraction = Field(0.5, description="share of clients in a round")
    epochs: Count = Field(5, description="passes over a client's data in a round")
    batch: Count = Field(32, description="examples per step; the last short batch is kept")
    min_steps: Natural = Field(0, description="at least so many batches a round")
    lr: Positive = Field(0.05, description="learning rate of the clients")
    momentum: Decay = Field(0.0, description="never survives a round")
    weight_decay: NonNegative = Field(0.0, description="added to every gradient")
    clip: Positive | None = Field(None, description="largest norm of a gradient")
    warmup: Natural = Field(0, description="rounds in which the rate grows linearly")
    augment: Literal["none", "crop-flip"] = Field(
        "none", description="random crop (padding 4) and horizontal flip"
    )


class EvaluateTable(_Closed):
    """What is measured and when; the last ten rounds always are."""

    every: Count = Field(1, description="rounds between evaluations of the server's model")
    personal: Natural = Field(
        5,
        description="rounds between evaluations of every client's model; 0: never "
        "(no accuracy at all where clients keep a part of the network)",
    )
    also: tuple[str, ...] = Field((), description="further personal models to evaluate, e.g. 'trained'")


class EngineTable(_Closed):
    """Where clients are simulated."""

    name: Literal["auto", "serial", "vectorised", "pool", "ray"] = Field(
        "auto", description="auto measures and picks"
    )
    workers: Natural = Field(0, description="processes of the pool; 0: one per core")
    block: Count = Field(10, description="clients per vectorised block")
    backend: Literal["auto", "autograd", "torch", "native"] = Field("auto", description="the inner step")
    device: str = Field(
        "cpu",
        pattern=r"^[a-z]+(:[0-9]+)?$",
        description="where clients compute: cpu, cuda, cuda:1 or another of torch's; serial and vectorised only",
    )


class GateTable(_Closed):
    """Which replies may enter the average."""

    enabled: bool | None = Field(
        None, description="default: on Flower only; in a simulation a client that diverges then ends the run"
    )
    norm: Positive = Field(1e4, description="largest norm of a client's change")
    largest: Positive = Field(1e8, description="largest of its other numbers")
    minimum: Count = Field(1, description="good replies a round needs; with fewer the model stays")


class PrivacyTable(_Closed):
    """Differential privacy of each client's whole data; see the page on privacy."""

    kind: Literal["none", "central", "local"] = Field(
        "none", description="who adds noise: nobody, the server to the mean, or every client to its reply"
    )
    clip: Positive = Field(1.0, description="largest norm of a client's change")
    noise: Positive = Field(
        1.0, description="standard deviation over the sensitivity, which is clip (central) or 2 clip (local)"
    )
    delta: Probability = Field(1e-5, description="of the guarantee (epsilon, delta)")
    secret: bool = Field(
        False, description="noise from the system's entropy; a run with it cannot be repeated bit for bit"
    )


class FlowerTable(_Closed):
    """How a deployment on Flower waits for its clients."""

    timeout: Positive = Field(600.0, description="seconds a round waits for clients")
    resend: Positive = Field(
        60.0, description="seconds without an answer after which a task is sent again; doubles each time"
    )
    over_selection: NonNegative = Field(
        0.0, description="participants beyond those needed, as a share; the slowest are not waited for"
    )


class Config(_Closed):
    """An experiment as a file."""

    name: str = Field("run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", description="runs/<name>/<seed>")
    seeds: tuple[Natural, ...] = Field(
        (0,), min_length=1, description="one run each: partition, weights, participants, batches"
    )
    dtype: Literal["float32", "float64"] = Field("float32", description="precision of training")
    data: DataTable = DataTable()
    split: SplitTable = SplitTable()
    model: ModelTable = ModelTable()
    method: MethodTable = MethodTable()
    train: TrainTable = TrainTable()
    evaluate: EvaluateTable = EvaluateTable()
    engine: EngineTable = EngineTable()
    gate: GateTable = GateTable()
    privacy: PrivacyTable = PrivacyTable()
    flower: FlowerTable = FlowerTable()

    def toml(self) -> str:
        """The file that gives this configuration again."""
        return tomli_w.dumps(_without_none(self.model_dump(mode="json")))

    def changed(self, overrides: Mapping[str, object]) -> Config:
        """The configuration with dotted keys replaced."""
        table = _without_none(self.model_dump(mode="json"))
        for key, value in overrides.items():
            _set(table, key, value)
        return parse(table, "the settings given with -s")

    def without_parts(self, names: Iterable[str]) -> Config:
        """The configuration without the tables of these parts."""
        table = _without_none(self.model_dump(mode="json"))
        for name in names:
            del table["method"][name]
        return parse(table, "the configuration")


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a TOML file, with `key=value` overrides; another scheme drops what it cannot take of the file's."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file. `fedskew new {path}` writes one that runs.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}.") from error
    pairs = [_pair(override) for override in overrides]
    for key, value in pairs:
        if key == "split.scheme" and isinstance(table.get("split"), dict):
            table["split"] = _of_scheme(table["split"], str(value))
    for key, value in pairs:
        _set(table, key, value)
    return _anchored(parse(table, str(path)), path.parent)


def _of_scheme(split: dict[str, Any], scheme: str) -> dict[str, Any]:
    from fedskew.data import partition  # numpy, which most commands do without

    known = {*SplitTable.model_fields, *partition.takes(scheme)}
    return {key: value for key, value in split.items() if key in known}


def _anchored(config: Config, folder: Path) -> Config:
    """A file of one's own is looked for beside the configuration first; a run keeps where it was found."""
    options = config.data.options
    for key, own in (
        ("data.path", options.get("path")),
        ("data.clients", options.get("clients")),
        ("data.dir", config.data.dir),
        ("split.file", config.split.file),
    ):
        if not isinstance(own, str) or Path(own).expanduser().is_absolute():
            continue
        found = next((place for place in (folder / own, Path(own)) if place.exists()), None)
        config = config if found is None else config.changed({key: str(found.resolve())})
    return config


def parse(table: Mapping[str, object], where: str) -> Config:
    """Checks a table against the schema; every problem names its key and the remedy."""
    try:
        return Config.model_validate(table)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_explain(error.errors()[0])}") from None


def _explain(error: ErrorDetails) -> str:
    path = [str(piece) for piece in error["loc"]]
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        return unknown("setting", key, _keys(path[:-1]), () if path[:-1] else _inner_keys())
    return f"{key} = {error['input']!r}: {reason(error['msg'])}."


def _keys(path: Sequence[str]) -> list[str]:
    table: Any = Config
    for piece in path:
        table = table.model_fields[piece].annotation
    return [".".join([*path, name]) for name in table.model_fields]


def _inner_keys() -> list[str]:
    tables = [name for name, field in Config.model_fields.items() if isinstance(field.default, BaseModel)]
    return [key for name in tables for key in _keys([name])]


def _pair(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"'{text}': an override has the form key=value, e.g. train.lr=0.01.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def _set(table: dict[str, Any], key: str, value: object) -> None:
    *path, last = key.split(".")
    for piece in path:
        table = table.setdefault(piece, {})
        if not isinstance(table, dict):
            raise ConfigError(f"'{key}': {piece} is a value, not a table.")
    table[last] = value


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value
