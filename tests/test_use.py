"""A model leaves its run and answers the same outside, where there is no fedskew."""

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from command import fedskew, works

from fedskew import build, card, runs
from fedskew.config import load
from fedskew.data.registry import load as load_data
from fedskew.errors import ConfigError, DataError
from fedskew.export import FORMATS, export
from fedskew.predict import inputs, scores
from fedskew.store import checkpoint
from fedskew.store.reader import RunReader
from fedskew.use import Taken, take

DIGITS = """
[split]
scheme = "labels"
clients = 5
per_client = 2
[train]
rounds = 2
epochs = 1
[evaluate]
personal = 1
"""
OWN = """
[data]
name = "csv"
path = "patients.csv"
label = "disease"
client = "hospital"
drop = ["note"]
[split]
scheme = "natural"
[train]
rounds = 3
participation = 1.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("use")
    (made / "c.toml").write_text(DIGITS, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def trained(folder: Path) -> dict[str, Path]:
    """One small run of every kind of method, by name."""
    base = load(folder / "c.toml")
    changes: dict[str, dict[str, object]] = {
        "fedavg": {},
        "fedova": {},
        "fedova2": {"method.preset": "fedova", "method.OneVsAll": {"head": "softmax2"}},
        "map": {},
        "fedrod": {},
        "fedper": {},
        "norm": {
            "method.preset": "fedavg",
            "model.name": "resnet20",
            "split.per_client": 10,
            "train.rounds": 1,
            "train.participation": 0.2,
        },
    }
    found = {}
    for name, settings in changes.items():
        config = base.changed(
            {"name": name, "method.preset": name, **settings}
            if settings
            else {"name": name, "method.preset": name}
        )
        found[name] = runs.begin(config, 0, folder / "runs")
        runs.carry_on(found[name])
    return found


def digits() -> torch.Tensor:
    return load_data("digits").x[:7]


def expected(place: Path, client: int | None) -> torch.Tensor:
    """The logits as the run itself computes them."""
    config = load(place / "config.toml")
    plan = build.experiment(config.changed({"split.file": str(place / runs.PARTITION)}))
    data = plan.dataset()
    with plan.session(0, data) as session:
        algorithm, feed = session.feed.algorithm, session.feed
    found = checkpoint.load(place)
    assert found is not None
    if client is None:
        params = algorithm.overall(found.server)
    else:
        params = algorithm.personal(found.server, found.kept.get(client), feed.idle(client))
    return algorithm.predict(params, data.x[:7])


def outside(script: str, *words: object) -> None:
    """Runs a script in a process that cannot import fedskew."""
    barred = "import sys\nsys.modules['fedskew'] = None\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", barred + script, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


TORCHSCRIPT = """
import numpy as np, torch
_, model, x, y = sys.argv
found = torch.jit.load(model)(torch.from_numpy(np.load(x)))
np.testing.assert_allclose(found.numpy(), np.load(y), rtol=1e-5, atol=1e-6)
"""
ONNX = """
import numpy as np, onnxruntime
_, x, *pairs = sys.argv
for model, y in zip(pairs[::2], pairs[1::2], strict=True):
    (found,) = onnxruntime.InferenceSession(model).run(["scores"], {"x": np.load(x)})
    np.testing.assert_allclose(found, np.load(y), rtol=1e-4, atol=1e-5)
"""
SAFETENSORS = """
import json, numpy as np, torch
from collections import OrderedDict
from safetensors import safe_open
from torch import nn
_, model, x, y = sys.argv
with safe_open(model, "pt") as file:
    weights = {name: file.get_tensor(name) for name in file.keys()}
    about = json.loads(file.metadata()["fedskew"])
shape, classes = about["shape"], about["classes"]
layers = {"flatten1": nn.Flatten(), "fc1": nn.Linear(64, 64), "relu1": nn.ReLU(), "head": nn.Linear(64, 10)}
network = nn.Sequential(OrderedDict(layers))
network.load_state_dict(weights)
with torch.no_grad():
    found = network(torch.from_numpy(np.load(x)))
assert (shape, classes) == ([1, 8, 8], [str(c) for c in range(10)])
np.testing.assert_allclose(found.numpy(), np.load(y), rtol=1e-5, atol=1e-6)
"""


def files(folder: Path, x: torch.Tensor, y: torch.Tensor) -> tuple[Path, Path]:
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "y.npy", y.numpy())
    return folder / "x.npy", folder / "y.npy"


CASES: Sequence[tuple[str, int | None]] = [
    *(("fedavg", None), ("fedavg", 3), ("fedova", None), ("fedova", 1), ("fedova2", None)),
    *(("map", 2), ("fedrod", 0), ("fedper", 4), ("norm", None)),
]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("name", "client"), CASES)
def test_torchscript_answers_like_the_run(
    name: str, client: int | None, trained: dict[str, Path], tmp_path: Path
) -> None:
    wanted = expected(trained[name], client)
    taken = take(trained[name], client)
    torch.testing.assert_close(scores(taken, digits()), wanted, rtol=1e-5, atol=1e-6)
    export(taken, "torchscript", tmp_path / "m.pt")
    loaded = torch.jit.load(str(tmp_path / "m.pt"))
    torch.testing.assert_close(loaded(digits()), wanted, rtol=1e-5, atol=1e-6)


def test_torchscript_and_safetensors_need_no_fedskew(trained: dict[str, Path], tmp_path: Path) -> None:
    x, y = files(tmp_path, digits(), expected(trained["fedavg"], None))
    works("export", str(trained["fedavg"]), "--to", "safetensors", "-o", str(tmp_path / "m.safetensors"))
    outside(SAFETENSORS, tmp_path / "m.safetensors", x, y)
    x, y = files(tmp_path, digits(), expected(trained["fedova"], 1))
    works(
        "export", str(trained["fedova"]), "--client", "1", "--to", "torchscript", "-o", str(tmp_path / "m.pt")
    )
    outside(TORCHSCRIPT, tmp_path / "m.pt", x, y)


def test_outside_there_is_no_fedskew() -> None:
    with pytest.raises(AssertionError, match="ModuleNotFoundError"):
        outside("import fedskew")


def test_onnx_answers_like_the_run(trained: dict[str, Path], tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed (extra `export`)")
    pairs = []
    for name in ("fedavg", "fedova2"):
        (tmp_path / name).mkdir()
        x, y = files(tmp_path / name, digits(), expected(trained[name], None))
        export(take(trained[name]), "onnx", tmp_path / f"{name}.onnx")
        pairs += [tmp_path / f"{name}.onnx", y]
    outside(ONNX, x, *pairs)


def test_onnx_without_its_packages_says_what_to_install(
    trained: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"fedskew\[export\]"):
        export(take(trained["fedavg"]), "onnx", tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_a_method_without_a_global_model_is_refused_with_the_reason(trained: dict[str, Path]) -> None:
    done = fedskew("export", str(trained["fedper"]), "--to", "torchscript", "-o", "m.pt")
    assert done.code == 2
    assert "no global model" in done.err
    assert "--client 0" in done.err


@pytest.mark.parametrize(
    ("words", "code", "holds"),
    [
        (("--to", "tensorflow", "-o", "m"), 2, "Choices: model-card, onnx, safetensors, torchscript"),
        (("--to", "safetensors", "-o", "m", "--client", "99"), 2, "numbered 0 to 4"),
        (("--to", "safetensors", "-o", "c.toml/m"), 5, "cannot be written"),
    ],
)
def test_wrong_exports(
    words: Sequence[str],
    code: int,
    holds: str,
    trained: dict[str, Path],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    done = fedskew("export", str(trained["fedavg"]), *words)
    assert (done.code, holds in done.err) == (code, True), done
    assert sorted(folder.iterdir()) == before


def test_no_run_and_no_round(folder: Path) -> None:
    assert "no run there" in fedskew("predict", "nowhere", "-i", "x.npy").err
    fresh = runs.begin(load(folder / "c.toml").changed({"name": "fresh"}), 0, folder / "runs")
    assert "has not finished a round" in fedskew("predict", str(fresh), "-i", "x.npy").err


def test_a_client_that_never_took_part_has_the_global_model(trained: dict[str, Path]) -> None:
    found = checkpoint.load(trained["norm"])
    assert found is not None
    stranger = next(client for client in range(5) if client not in found.kept)
    assert "has not taken part" in take(trained["norm"], stranger).who


def test_the_card_says_what_was_measured(trained: dict[str, Path], tmp_path: Path) -> None:
    works(
        "export", str(trained["map"]), "--client", "2", "--to", "model-card", "-o", str(tmp_path / "card.md")
    )
    text = (tmp_path / "card.md").read_text(encoding="utf-8")
    result = runs.read(trained["map"])
    assert f"| personalised accuracy | {100 * result.mean_last('personal.accuracy'):.1f} |" in text
    assert "inherited" in text
    assert "has never seen" in text
    assert "Li et al., MAP" in text
    assert '```toml\nname = "map"' in text


def test_every_format_writes_a_whole_file(trained: dict[str, Path], tmp_path: Path) -> None:
    for to in sorted(FORMATS.keys() - {"onnx"}):
        export(take(trained["fedavg"]), to, tmp_path / to)
    assert {path.name for path in tmp_path.iterdir()} == FORMATS.keys() - {"onnx"}


@pytest.fixture(scope="module")
def hospital(folder: Path) -> Path:
    """A run on a table of its own, whose columns are far from mean 0 and deviation 1."""
    draw = np.random.default_rng(0)
    where, what = draw.integers(3, size=200), draw.integers(2, size=200)
    x = draw.normal(size=(200, 3)) * [1, 50, 1000] + what[:, None] * [3, 100, 2000]
    with (folder / "patients.csv").open("w", newline="") as file:
        sheet = csv.writer(file)
        sheet.writerow(["age", "pulse", "weight", "note", "hospital", "disease"])
        sheet.writerows(
            [*row, "-", f"h{h}", "ill" if w else "well"] for row, h, w in zip(x, where, what, strict=True)
        )
    (folder / "own.toml").write_text(
        OWN.replace("patients.csv", str(folder / "patients.csv")), encoding="utf-8"
    )
    place = runs.begin(load(folder / "own.toml"), 0, folder / "runs" / "own")
    runs.carry_on(place)
    return place


def table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[float]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def test_own_raw_numbers_are_scaled_as_in_training(hospital: Path, tmp_path: Path, folder: Path) -> None:
    taken = take(hospital)
    assert taken.scale is not None
    rows = [[1.0, 20.0, 300.0], [4.0, 150.0, 2500.0], [2.0, 0.0, 1000.0]]
    new = table(tmp_path / "new.csv", ["age", "pulse", "weight"], rows)
    wanted = scores(taken, inputs(new, taken))
    known = build.experiment(load(hospital / "config.toml")).dataset()
    with (folder / "patients.csv").open() as file:
        raw = torch.tensor([[float(v) for v in line[:3]] for line in list(csv.reader(file))[1:]])
    torch.testing.assert_close(scores(taken, raw), taken.network(known.x), rtol=1e-4, atol=1e-4)
    export(taken, "torchscript", tmp_path / "m.pt")
    outside(TORCHSCRIPT, tmp_path / "m.pt", *files(tmp_path, torch.tensor(rows), wanted))
    export(taken, "safetensors", tmp_path / "m.safetensors")
    from safetensors import safe_open

    with safe_open(tmp_path / "m.safetensors", "pt") as file:
        about = json.loads(file.metadata()["fedskew"])
    by_hand = (torch.tensor(rows) - torch.tensor(about["mean"])) / torch.tensor(about["std"])
    torch.testing.assert_close(taken.network(by_hand), wanted, rtol=1e-4, atol=1e-5)


def test_columns_are_found_by_name(hospital: Path, tmp_path: Path) -> None:
    taken = take(hospital)
    right = inputs(table(tmp_path / "a.csv", ["age", "pulse", "weight"], [[1, 2, 3]]), taken)
    stamps = inputs(
        table(tmp_path / "s.csv", ["age", "pulse", "weight"], [[1700000000 + k, 2, 3] for k in (0, 60)]),
        taken,
    )
    assert len(stamps) == 2, "what could not be trained on can be asked about"
    other = inputs(table(tmp_path / "b.csv", ["weight", "x", "age", "pulse"], [[3, 9, 1, 2]]), taken)
    assert torch.equal(right, other)
    with pytest.raises(DataError, match="lacks the column 'pulse'"):
        inputs(table(tmp_path / "c.csv", ["age", "weight"], [[1, 3]]), taken)


def test_a_client_is_taken_by_name(hospital: Path, tmp_path: Path) -> None:
    by_name, by_number = take(hospital, "h1"), take(hospital, 1)
    assert by_name.client == by_number.client == 1
    assert "client h1" in by_name.who
    own = zip(by_name.network.parameters(), by_number.network.parameters(), strict=True)
    assert all(torch.equal(mine, same) for mine, same in own)
    said = works(
        "export", str(hospital), "--client", "h2", "--to", "model-card", "-o", str(tmp_path / "c.md")
    )
    assert "client h2" in said
    assert "- Client h2 holds" in (tmp_path / "c.md").read_text(encoding="utf-8")
    done = fedskew("predict", str(hospital), "-i", "x.csv", "--client", "h9")
    assert done.code == 2
    assert "no client 'h9'" in done.err
    assert "h0, h1, h2" in done.err


def test_a_run_of_before_clients_had_names_knows_numbers(
    hospital: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RunReader.file

    def before(reader: RunReader, name: str) -> bytes:
        found = whole(reader, name)
        if name != runs.CENSUS:
            return found
        return json.dumps({k: v for k, v in json.loads(found).items() if k != "clients"}).encode()

    monkeypatch.setattr(RunReader, "file", before)
    assert take(hospital, "1").who.startswith("the personal model of client 1 ")
    with pytest.raises(ConfigError, match=r"no client 'h1'\. They are numbered 0 to 2"):
        take(hospital, "h1")


def test_predictions_are_a_table(hospital: Path, tmp_path: Path) -> None:
    new = table(tmp_path / "new.csv", ["age", "pulse", "weight"], [[0, 0, 0], [3, 100, 2000]])
    said = works("predict", str(hospital), "--input", str(new))
    lines = list(csv.DictReader(said.splitlines()))
    assert [line["class"] for line in lines] == ["well", "ill"]
    assert list(lines[0]) == ["row", "class", "score ill", "score well"]
    assert works("predict", str(hospital), "-i", str(new), "--client", "1", "-o", str(tmp_path / "o.csv"))
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("array", "holds"),
    [
        (np.zeros((2, 4)), r"is \[2, 4\]"),
        (np.full((2, 1, 8, 8), np.nan), "no finite number"),
        (np.array([["a"] * 64]), "no finite number"),
        (np.zeros((0, 1, 8, 8)), r"is \[0, 1, 8, 8\]"),
        (np.zeros((2, 8, 8, 1)), r"is \[2, 8, 8, 1\]"),
    ],
)
def test_wrong_inputs(array: np.ndarray, holds: str, trained: dict[str, Path], tmp_path: Path) -> None:
    taken: Taken = take(trained["fedavg"])
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(DataError, match=holds):
        inputs(tmp_path / "x.npy", taken)


def test_kinds_of_files(trained: dict[str, Path], tmp_path: Path) -> None:
    taken, x = take(trained["fedavg"]), digits().numpy()
    np.save(tmp_path / "x.npy", x.reshape(7, 64))
    np.savez(tmp_path / "x.npz", x=x.squeeze(1).astype(">f4"))
    table(tmp_path / "x.csv", [str(k) for k in range(64)], x.reshape(7, 64).tolist())
    found = [inputs(tmp_path / f"x.{kind}", taken) for kind in ("npy", "npz", "csv")]
    assert all(torch.equal(one, digits()) for one in found)
    (tmp_path / "x.npy").write_bytes(b"no")
    np.savez(tmp_path / "x.npz", z=x)
    for name, holds in (("x.npy", "no .npy"), ("x.npz", "no array x"), ("x.txt", "kind of input")):
        with pytest.raises(DataError, match=holds):
            inputs(tmp_path / name, taken)


def test_names_in_the_card_are_read_as_they_are(hospital: Path) -> None:
    taken = take(hospital)
    names = ("a|b", "<i>flu</i> *new*\nline", *taken.classes[2:])
    said = card.text(taken._replace(classes=names))
    assert r"| a\|b | " in said
    assert r"&lt;i&gt;flu&lt;/i&gt; \*new\* line" in said


def test_a_run_without_personal_models_says_so(folder: Path) -> None:
    config = load(folder / "c.toml").changed(
        {"name": "impersonal", "evaluate.personal": 0, "train.rounds": 1}
    )
    place = runs.begin(config, 0, folder / "runs")
    runs.carry_on(place)
    taken = checkpoint.load(place)
    assert taken is not None
    with pytest.raises(ConfigError, match="kept no client's trained model"):
        take(place, next(iter(taken.kept)))


def test_a_private_part_that_never_trained_is_refused(folder: Path) -> None:
    few = {"name": "few", "method.preset": "fedper", "train.rounds": 1, "train.participation": 0.2}
    place = runs.begin(load(folder / "c.toml").changed(few), 0, folder / "runs")
    runs.carry_on(place)
    found = checkpoint.load(place)
    assert found is not None
    with pytest.raises(ConfigError, match="that part is untrained"):
        take(place, next(client for client in range(5) if client not in found.kept))
