"""The recipes: every published number once, settings as the specification has them, claims that can be judged."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedskew.config import Config
from fedskew.errors import ConfigError
from fedskew.reproduce import load, pictures, sights
from fedskew.reproduce.cells import Cell, cells, sharing
from fedskew.reproduce.judge import judge
from fedskew.reproduce.kinds import PICTURES
from fedskew.reproduce.recipe import Recipe

TARGETS = Path(__file__).parents[2] / "shared" / "spec" / "targets.md"
RECIPES = sorted(load.names())
SPELLED = {"lg_fedavg": "lg-fedavg", "perfedavg": "per-fedavg", "grp_fed": "grpfed"}
DATA = {"FMNIST": "fashion", "CIFAR10": "cifar10", "KWS": "kws", "MNIST": "mnist", "SVHN": "svhn"}
Number = tuple[str, str, str, str]  # recipe, score, row, column


@pytest.fixture(params=RECIPES)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return load.load(request.param)


def column(name: str) -> str:
    return SPELLED.get(name, name)


def blocks() -> dict[str, list[dict[str, str]]]:
    """The tables of the transcript by their numbers, E1 for the one without."""
    pattern = r"^(?:([A-E]\d)\. [^\n]*|## (E)\. [^\n]*)\n```csv\n(.*?)```"
    text = TARGETS.read_text(encoding="utf-8")
    found = re.finditer(pattern, text, re.M | re.S)
    return {m[1] or "E1": list(csv.DictReader(io.StringIO(m[3]))) for m in found}


def transcript() -> Iterator[tuple[Number, str]]:
    """Where every number of the transcript belongs."""
    tables = blocks()
    for block, table, score in (("A1", "fedabc-table-1", "accuracy"), ("A2", "fedabc-table-2", "drift")):
        for row in tables[block]:
            yield from line(table, score, f"{DATA[row['dataset']]}-{row['dir']}", row, "dataset", "dir")
    for block, table, key in (("B1", "fedlc-table-1", "beta"), ("B2", "fedlc-table-2", "alpha")):
        for row in tables[block]:
            yield from line(table, "accuracy", f"{row['dataset'].lower()}-{row[key]}", row, "dataset", key)
    for row in tables["B3"]:
        yield from line("fedlc-table-3", "accuracy", row["skew"].replace("=", "-"), row, "skew")
    for row in tables["B4"]:
        name = row["dataset"].lower().replace("(", "-").partition(";")[0]
        yield from line("fedlc-table-4", "accuracy", name, row, "dataset")
    for row in tables["B5"]:
        for key, value in row.items():
            if key not in ("E", "method"):
                name = f"{key.replace('_', '-')}-e{row['E']}"
                yield ("fedlc-table-5", "accuracy", name, row["method"]), value
    for row in tables["B6"]:
        yield from line("fedlc-table-6", "accuracy", f"clients-{row['m']}", row, "m")
    for row in tables["B7"]:
        for key, value in row.items():
            if key != "method":
                data, kind, size = re.fullmatch(r"(\w+?)_([a-z]+)([\d.]+)", key).groups()  # type: ignore[union-attr]
                yield ("fedlc-table-7", "accuracy", f"{data}-{kind}-{size}", row["method"]), value
    for row in tables["C1"]:
        yield from line(
            "fedova-table-1", "accuracy", f"{DATA[row['dataset']]}-{row['l']}", row, "dataset", "l"
        )
    for row in tables["C2"]:
        name = row["method"].replace("data_sharing_", "sharing-").removesuffix("pct")
        for key in ("FMNIST", "CIFAR10", "KWS"):
            yield ("fedova-table-2", "accuracy", f"{DATA[key]}-2", name), row[key]
    for row in tables["C3"]:
        size = "2" if row["K"] == "100" else row["K"]
        yield from line("fedova-table-3", "accuracy", f"{DATA[row['dataset']]}-{size}", row, "dataset", "K")
    for row in tables["E1"]:
        for key in ("Tg", "Tl", "Tp", "Tr"):
            name = row["dataset"].lower().replace("-", "")
            yield ("grpfed-table-1", key.lower(), name, column(row["method"])), row[key]


def line(table: str, score: str, name: str, row: dict[str, str], *keys: str) -> Iterator[tuple[Number, str]]:
    for key, value in row.items():
        if key not in keys:
            yield (table, score, name, column(key)), value


def written() -> Iterator[tuple[Number, str]]:
    for name in RECIPES:
        one = load.load(name)
        for row in one.rows:
            for score, printed in row.published.items():
                for method, value in printed.items():
                    spread = "" if value.std is None else f"±{value.std:g}"
                    yield (name, score, row.name, method), f"{value.mean:g}{spread}{'?' * value.doubtful}"


def short(text: str) -> str:
    return re.sub(r"[\d.]+", lambda number: f"{float(number[0]):g}", text)


@pytest.mark.skipif(
    not TARGETS.is_file(), reason="the transcript of the papers' tables is not beside the project"
)
def test_every_published_number_is_in_one_recipe() -> None:
    expected = dict(transcript())
    found = list(written())
    assert len(expected) > 500
    assert len(found) == len(dict(found)) == len(expected)
    assert dict(found) == {place: short(value) for place, value in expected.items()}


@pytest.mark.skipif(
    not TARGETS.is_file(), reason="the transcript of the papers' tables is not beside the project"
)
def test_the_gains_of_an_ablation_that_prints_nothing_else() -> None:
    claim = load.load("fedabc-figure-5").claims[0]
    gains = {f"cifar10-{row['dir']}": float(row["gain_points"]) for row in blocks()["A3"]}
    assert claim.compare[0].gain == gains


@pytest.mark.skipif(
    not TARGETS.is_file(), reason="the transcript of the papers' claims is not beside the project"
)
def test_every_claim_is_in_a_recipe() -> None:
    wanted = set(re.findall(r"^\* ([A-E]-\d)", TARGETS.read_text(encoding="utf-8"), re.M))
    assert len(wanted) >= 28
    assert wanted <= {claim.id for name in RECIPES for claim in load.load(name).claims}


def test_claims_point_upwards(recipe: Recipe) -> None:
    """A claim is written with what is better first: the published difference is then above zero."""
    for judgement in judge(recipe, []):
        assert judgement.contrasts, f"{judgement.claim.id} compares nothing"
        for contrast in judgement.contrasts:
            assert (
                contrast.slack is not None
                or contrast.within is not None
                or contrast.claimed is None
                or contrast.claimed > 0
            ), contrast.label


def test_cells_are_experiments(recipe: Recipe) -> None:
    from fedskew import build

    for cell in cells(recipe):
        if min(sharing()[cell.digest]) == recipe.name:  # what others share is built once
            build.experiment(cell.config)


def test_names_serve_as_folders(recipe: Recipe) -> None:
    names = [cell.name for cell in cells(recipe)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", name) for name in names)


ALLOWED = {"train.rounds", "evaluate.every", "evaluate.personal", "name"}


def test_quick_keeps_what_matters(recipe: Recipe) -> None:
    """Clients, skew, participation, epochs and losses are the paper's; only the number of rounds is cut."""
    for full, quick in zip(cells(recipe), cells(recipe, "quick"), strict=True):
        assert quick.config.train.rounds <= full.config.train.rounds
        changed = {key for key, value in flat(full.config).items() if flat(quick.config)[key] != value}
        assert changed <= ALLOWED, full.name


def flat(config: Config) -> dict[str, object]:
    out: dict[str, object] = {}
    for name, table in config.model_dump(mode="json").items():
        inner = (
            {f"{name}.{key}": value for key, value in table.items()}
            if isinstance(table, dict)
            else {name: table}
        )
        out |= inner
    return out


def test_one_weighting_within_a_comparison(recipe: Recipe) -> None:
    assert len({cell.config.method.weight for cell in cells(recipe)}) == 1


def test_every_kind_of_picture_can_be_drawn() -> None:
    assert set(PICTURES) == set(pictures.KINDS) | set(sights.KINDS)


# What the specification says (its section 9 and the settings of each paper), written by hand.
SPEC: dict[tuple[str, str], dict[str, object]] = {
    ("fedabc-table-1", "mnist-0.1.fedabc"): {
        "data.name": "mnist",
        "model.name": "fedabc-mlp",
        "split.scheme": "dirichlet",
        "split.beta": 0.1,
        "split.clients": 20,
        "split.balanced": True,
        "train.participation": 0.5,
        "train.rounds": 100,
        "train.epochs": 5,
        "train.batch": 64,
        "train.lr": 0.01,
        "train.momentum": 0.9,
        "train.weight_decay": 1e-5,
        "method.weight": "samples",
        "method.OneVsAllBinary": {"mp": 0.75, "mn": 0.25, "mnn": 0.3, "sigma": 2.0},
    },
    ("fedabc-table-1", "cifar10-1.0.fedabc"): {
        "model.name": "fedabc-cnn",
        "train.rounds": 200,
        "train.lr": 0.1,
        "method.OneVsAllBinary": {"mp": 0.85, "mn": 0.2, "mnn": 0.3, "sigma": 2.0},
    },
    ("fedlc-table-1", "cifar10-0.05.fedlc"): {
        "model.name": "fedlc-cnn",
        "split.clients": 20,
        "split.balanced": "if_needed",
        "train.participation": 1.0,
        "train.rounds": 400,
        "train.epochs": 1,
        "train.batch": 128,
        "train.lr": 0.01,
        "train.momentum": 0.0,
        "train.weight_decay": 0.0,
        "method.CalibratedSoftmax": {"tau": 1.0},
        "method.weight": "samples",
    },
    ("fedlc-table-2", "cifar10-2.fedavg"): {"split.scheme": "shards", "split.alpha": 2, "train.epochs": 5},
    ("fedlc-table-4", "synthetic-0.5.fedavg"): {
        "data.clients": 100,
        "data.lam": 0.5,
        "data.mu": 0.5,
        "model.name": "logistic",
        "train.rounds": 300,
    },
    ("fedlc-table-5", "svhn-alpha5-e20.fedlc"): {"split.clients": 10, "train.epochs": 20, "split.alpha": 5},
    ("fedlc-table-6", "clients-100.fedrs"): {"split.clients": 100, "split.beta": 0.1, "train.epochs": 1},
    ("fedova-table-1", "fashion-2.fedova"): {
        "split.scheme": "labels",
        "split.per_client": 2,
        "split.clients": 100,
        "train.participation": 0.2,
        "train.rounds": 200,
        "train.epochs": 5,
        "train.batch": 15,
        "train.lr": 0.01,
        "train.momentum": 0.9,
        "method.weight": "uniform",
    },
    ("fedova-table-3", "fashion-1000.fedavg"): {"split.clients": 1000, "train.participation": 0.2},
    ("fedova-table-2", "kws-2.sharing-10"): {"split.shared_data": 0.1, "method.preset": "fedavg"},
    ("map-comparison", "mlpnet.map"): {
        "model.name": "map-mlpnet",
        "split.scheme": "incomplete",
        "split.clients": 100,
        "train.participation": 0.2,
        "train.rounds": 150,
        "train.epochs": 5,
        "train.batch": 32,
        "train.lr": 0.03,
        "train.momentum": 0.9,
        "train.weight_decay": 1e-5,
        "train.clip": 100.0,
        "train.warmup": 5,
        "train.min_steps": 5,
        "method.weight": "uniform",
        "method.RestrictedSoftmax": {"alpha": 0.5},
        "method.Inherit": {"weight": 0.1},
    },
    ("grpfed-table-1", "mitbih.grpfed"): {
        "data.name": "mit-bih",
        "split.scheme": "natural",
        "model.name": "ecg-resnet",
        "train.rounds": 200,
        "train.epochs": 5,
        "train.batch": 64,
        "train.lr": 0.005,
        "train.momentum": 0.9,
        "method.AdaptivePower": {"q": 10.0, "rate": 0.5},
        "method.GlobalRegularised": {"beta": 0.5},
    },
    ("grpfed-table-1", "cifar10.fedavg"): {
        "split.scheme": "powerlaw",
        "split.clients": 50,
        "split.rho": 0.7,
        "split.tau": 0.5,
        "model.name": "resnet32",
        "method.personal": "global",
    },
}


def found(table: str, name: str) -> Cell:
    return next(cell for cell in cells(load.load(table)) if cell.name == name)


@pytest.mark.parametrize(("place", "wanted"), SPEC.items(), ids=[name for _, name in SPEC])
def test_settings_are_the_specified_ones(place: tuple[str, str], wanted: dict[str, object]) -> None:
    settings = flat(found(*place).config)
    assert {key: settings[key] for key in wanted} == wanted


def test_ten_of_46_patients_take_part() -> None:
    from fedskew.keys import participants

    assert (
        len(participants(0, 0, 46, found("grpfed-table-1", "mitbih.grpfed").config.train.participation)) == 10
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("fedabc-table-1", "mnist-0.3.scaffold"), ("fedabc-table-2", "mnist-0.3.scaffold")),
        (("fedabc-table-1", "mnist-0.1.fedabc"), ("fedabc-figure-5", "mnist-0.1.fedabc")),
        (("fedova-table-1", "fashion-2.fedova"), ("fedova-table-2", "fashion-2.fedova")),
        (("fedova-table-1", "fashion-2.fedova"), ("fedova-table-3", "fashion-2.fedova")),
        (("fedova-table-1", "fashion-2.fedova"), ("fedova-figure-4", "fashion-2.fedova")),
        (("grpfed-table-1", "mitbih.grpfed"), ("grpfed-figure-4", "beta-0.5.grpfed")),
        (("map-comparison", "mlpnet.map"), ("map-ablation", "mlpnet.map")),
        (("fedlc-figure-6", "fashion-0.5.fedavg"), ("fedlc-figure-2", "fashion-0.5.fedavg")),
    ],
)
def test_the_same_settings_are_run_once(one: tuple[str, str], other: tuple[str, str]) -> None:
    first, second = found(*one), found(*other)
    assert first.run == second.run


def test_other_settings_are_not_mixed_up() -> None:
    fashion, quick = cells(load.load("fedova-table-1")), cells(load.load("fedova-table-1"), "quick")
    assert len({cell.digest for cell in [*fashion, *quick]}) == len(fashion) + len(quick)


TIER_1 = {
    "fedabc-table-1": 36,
    "fedova-table-1": 2,
    "fedova-table-2": 4,
    "fedova-table-3": 4,
    "fedlc-fashion": 36,
    "fedlc-table-4": 24,
    "map-comparison": 6,
}


@pytest.mark.parametrize(("name", "count"), TIER_1.items())
def test_the_first_tier(name: str, count: int) -> None:
    assert sum(cell.tier == 1 for cell in cells(load.load(name))) == count


LIKE = """
like = "fedlc-fashion"
where = "here"
title = "mine"
curves = ["global.accuracy"]
[[pictures]]
title = "mine"
"""


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('like = "fedlc-tabel-1"', "recipe to be like 'fedlc-tabel-1'. Did you mean 'fedlc-table-1'"),
        (
            'like = "fedlc-table-1"\nwhere = "here"\ntitle = "mine"\n[[rows]]\nlabel = "mine"',
            r"rows\.0\.name",
        ),
        (LIKE + 'kind = "pie"', "unknown kind of picture: pie; choices: bars, lines"),
        (LIKE + 'kind = "bars"', "a picture of kind bars needs the option score"),
        (
            LIKE + 'kind = "bars"\noptions.score = "beauty"',
            "score of picture mine: beauty; choices: accuracy",
        ),
        (
            LIKE + 'kind = "curves"\noptions = { metric = "beauty", axis = "beauty" }',
            "metric of picture mine: beauty; choices: global.accuracy",
        ),
    ],
)
def test_an_own_recipe_with_a_mistake_is_told_where(text: str, holds: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=holds):
        load.load(str(path))
