"""The configuration: round trips, overrides, documentation in step with the schema."""

import importlib.util
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedskew import build
from fedskew.config import Config, load, parse
from fedskew.data.partition import Dirichlet
from fedskew.errors import ConfigError
from fedskew.methods import presets
from fedskew.template import TEMPLATE

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("method", presets())
def test_every_preset_round_trips(method: str, tmp_path: Path) -> None:
    config = Config().changed({"method.preset": method, "split.clients": 20, "split.per_client": 2})
    path = tmp_path / "c.toml"
    path.write_text(config.toml())
    assert load(path) == config
    assert build.method(config) == presets()[method]


@given(
    lr=st.floats(1e-6, 10),
    rounds=st.integers(1, 10_000),
    seeds=st.lists(st.integers(0, 2**31), min_size=1, max_size=5),
    clip=st.none() | st.floats(0.1, 100),
)
def test_toml_and_back(lr: float, rounds: int, seeds: list[int], clip: float | None) -> None:
    train = {"lr": lr, "rounds": rounds} | ({} if clip is None else {"clip": clip})
    config = parse({"seeds": seeds, "train": train}, "test")
    assert parse(tomllib.loads(config.toml()), "again") == config


def test_the_template_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(TEMPLATE)
    assert build.experiment(load(path)).label == "fedlc"


def test_parts_replace_the_presets_own_settings() -> None:
    config = Config().changed(
        {"method.preset": "fedprox+fedlc", "method.Proximal.mu": 0.7, "method.CalibratedSoftmax.tau": 0.5}
        | {"split.clients": 20, "split.per_client": 2}
    )
    made = build.method(config)
    assert made.terms[0].mu == 0.7
    assert made.objective.tau == 0.5


def test_overrides_are_typed_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(TEMPLATE)
    config = load(path, ["train.lr=0.5", "method.preset=fedavg", "seeds=[4, 5]", "evaluate.also=['trained']"])
    assert (config.train.lr, config.method.preset, config.seeds) == (0.5, "fedavg", (4, 5))
    assert config.evaluate.also == ("trained",)
    with pytest.raises(ConfigError, match=r"train\.rounds"):
        load(path, ["train.rounds=many"])
    for setting in ("train.lr", "train.rounds", "train.clip"):
        with pytest.raises(ConfigError, match=rf"{setting}.*a number, not true"):
            load(path, [f"{setting}=true"])
    for setting in ("train.lr", "split.beta", "model.width", "data.noise"):
        with pytest.raises(ConfigError, match=rf"{setting} = nan: should be a finite number"):
            load(path, [f"{setting}=nan"])
    with pytest.raises(ConfigError, match=r"method\.Proximal = \{'mu': inf\}: should be a finite number"):
        load(path, ["method.Proximal.mu=inf"])


def test_another_scheme_keeps_what_it_can_take(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(TEMPLATE)
    config = load(path, ["split.scheme=dirichlet", "split.beta=0.3"])
    assert build.experiment(config).split == Dirichlet(beta=0.3, clients=20)
    asked_for = load(path, ["split.per_client=3", "split.scheme=dirichlet", "split.beta=0.3"])
    with pytest.raises(ConfigError, match="unknown setting of partition scheme dirichlet: 'per_client'"):
        build.experiment(asked_for)
    with pytest.raises(ConfigError, match="unknown partition scheme 'dirichlett'"):
        load(path, ["split.scheme=dirichlett"])
    path.write_text("split = 3\n")
    with pytest.raises(ConfigError, match="split"):
        load(path, ["split.scheme=iid"])
    path.write_text("")
    assert load(path, ["split.scheme=iid"]).split.scheme == "iid"


def test_own_files_are_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "split.json").write_text("{}", encoding="utf-8")
    (folder / "c.toml").write_text('[split]\nfile = "split.json"\n', encoding="utf-8")
    assert load(folder / "c.toml").split.file == str(folder / "split.json")
    (folder / "split.json").unlink()
    assert load(folder / "c.toml").split.file == "split.json", "it may be where the run is begun"
    (folder / "owners.csv").write_text("", encoding="utf-8")
    (folder / "c.toml").write_text(
        '[data]\nname = "image-folder"\ndir = "."\npath = "pictures"\nclients = "owners.csv"\n',
        encoding="utf-8",
    )
    found = load(folder / "c.toml").data
    assert (found.dir, found.options["clients"]) == (str(folder), str(folder / "owners.csv"))


def test_the_page_is_in_step_with_the_schema() -> None:
    spec = importlib.util.spec_from_file_location("configuration", ROOT / "tools" / "configuration.py")
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.text(), "run: python tools/configuration.py"
