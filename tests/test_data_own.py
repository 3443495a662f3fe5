"""Your own data: arrays, tables and image folders, each with or without clients."""

import csv
import tarfile
import zipfile
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

import data_makers as make
import numpy as np
import pytest
from PIL import Image

from fedskew.data import registry
from fedskew.data.arrays import from_arrays
from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder
from fedskew.data.numbering import numbered
from fedskew.data.safe import image
from fedskew.errors import ConfigError, DataError

RNG = np.random.default_rng(11)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    (tmp_path / "data").mkdir()
    return make.own_folder(tmp_path)


def load(folder: Folder, name: str, **options: object) -> Dataset:
    return registry.load(name, options, folder=folder)


def test_arrays(folder: Folder, tmp_path: Path) -> None:
    x, y = RNG.normal(5, 3, (40, 2, 6)), np.arange(40) % 4 + 10
    np.savez_compressed(tmp_path / "data" / "own.npz", x=x, y=y, client=[f"c{k % 2}" for k in range(40)])
    data = load(folder, "arrays", path="own.npz")  # found below data_dir
    assert data.classes == ("10", "11", "12", "13")
    assert data.y.tolist() == (y - 10).tolist()
    assert data.owners is not None
    assert data.owners.tolist() == [k % 2 for k in range(40)]
    assert data.clients == ("c0", "c1")
    part = x[data.train]
    expected = (x - part.mean((0, 2), keepdims=True)) / part.std((0, 2), keepdims=True)
    np.testing.assert_allclose(data.x, expected, atol=1e-5)
    plain = load(folder, "arrays", path=str(tmp_path / "data" / "own.npz"), normalise=False)
    np.testing.assert_allclose(plain.x, x, atol=1e-5)


def test_arrays_in_memory_with_a_test_part_of_their_own() -> None:
    test = np.arange(30) >= 20
    data = from_arrays(np.ones((30, 3)), np.array(["b", "a", "c"] * 10), test=test)
    assert data.test.tolist() == list(range(20, 30))
    assert data.classes == ("a", "b", "c")
    assert data.y[:3].tolist() == [1, 0, 2]
    assert float(data.x.abs().max()) == 0  # a constant column is not divided by nothing
    with pytest.raises(DataError, match="none is left for training"):
        from_arrays(np.ones((3, 3)), np.arange(3), test=np.ones(3))


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        (np.ones(3), np.arange(3), "samples along the first axis"),
        (np.ones((3, 2)), np.arange(2), "y has the shape"),
        (np.ones((3, 2)), np.zeros(3), "two different classes"),
        (np.ones((3, 2)), np.array([0, 0.5, 1]), "no whole numbers"),
        (np.array([[1, 2], [np.nan, 1]]), np.arange(2), "sample 1 is not finite"),
        (np.array([[1, 2], [1, 1e39]]), np.arange(2), "sample 1 is not finite in single precision"),
        (np.ones((2, 2)), np.array([1e20, 2e20]), "no whole numbers"),
        (np.array([["a", "b"]] * 2), np.arange(2), "not numbers"),
    ],
)
def test_arrays_that_make_no_sense(x: np.ndarray, y: np.ndarray, why: str) -> None:
    with pytest.raises(DataError, match=f"mine: .*{why}"):
        from_arrays(x, y, name="mine")


def test_arrays_of_a_data_frame(folder: Folder) -> None:
    """Texts of a data frame are objects."""
    words = np.array(["cat", "dog", "cat", "dog"], dtype=object)
    data = from_arrays(np.eye(4), words, client=words[::-1], test=np.array([False, True] * 2, dtype=object))
    assert (data.classes, data.clients, data.test.tolist()) == (("cat", "dog"), ("cat", "dog"), [1, 3])
    for mixed in (
        np.array(["cat", None, "dog", "dog"], dtype=object),
        np.array([1, "a", 2, 3], dtype=object),
    ):
        with pytest.raises(DataError, match=r"client \(object\) must be numbers or text"):
            from_arrays(np.eye(4), words, client=mixed)
    for test in ([0, 1, 2, 0], [0, 1, np.nan, 0]):
        with pytest.raises(DataError, match="test must be true or false"):
            from_arrays(np.eye(4), words, test=np.array(test))


@pytest.mark.parametrize("names", [["1", "01", "2"], ["--5", "3"], ["-5", "3"]])
def test_names_have_one_order(names: list[str]) -> None:
    places, order = numbered(names)
    assert [order[k] for k in places] == names
    assert numbered(names[::-1])[1] == order


def rows() -> list[dict[str, object]]:
    return [
        {
            "when": "may",
            "a": k,
            "b": k * k / 7,
            "kind": "odd" if k % 2 else "even",
            "who": f"site {k % 3}",
            "held": k % 5 == 0,
        }
        for k in range(30)
    ]


def write_csv(path: Path, table: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def check_table(data: Dataset) -> None:
    assert tuple(data.x.shape) == (30, 2)
    assert data.classes == ("even", "odd")
    assert data.test.tolist() == [0, 5, 10, 15, 20, 25]
    assert data.owners is not None
    assert data.owners.tolist() == [k % 3 for k in range(30)]
    assert data.clients == ("site 0", "site 1", "site 2")
    np.testing.assert_allclose(data.x[data.train].mean(0), [0, 0], atol=1e-6)


OPTIONS = {"label": "kind", "client": "who", "test": "held", "drop": ["when"]}


def test_csv_table(folder: Folder, tmp_path: Path) -> None:
    write_csv(tmp_path / "table.csv", rows())
    check_table(load(folder, "csv", path=str(tmp_path / "table.csv"), **OPTIONS))


def test_parquet_table(folder: Folder, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is in the extra table")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(rows()), tmp_path / "table.parquet")
    check_table(load(folder, "parquet", path=str(tmp_path / "table.parquet"), **OPTIONS))
    floats = [row | {"held": float(bool(row["held"]))} for row in rows()]
    parquet.write_table(arrow.Table.from_pylist(floats), tmp_path / "floats.parquet")
    check_table(load(folder, "parquet", path=str(tmp_path / "floats.parquet"), **OPTIONS))
    nobody = [rows()[0] | {"who": None}, *rows()[1:]]
    dated = [row | {"a": datetime(2020, 1, 1)} for row in rows()]
    for odd, why in ((nobody, "row 2 has no 'who'"), (dated, "row 2 has '2020-01-01")):
        parquet.write_table(arrow.Table.from_pylist(odd), tmp_path / "odd.parquet")
        with pytest.raises(DataError, match=why):
            load(folder, "parquet", path=str(tmp_path / "odd.parquet"), **OPTIONS)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "table.parquet").read_bytes()[:-50])
    with pytest.raises(DataError, match=r"cut\.parquet"):
        load(folder, "parquet", path=str(tmp_path / "cut.parquet"), **OPTIONS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,kind\n1,x\n2\n", "row 3 has 1 values for 2"),
        ("a,kind\n1,x\n,y\n", r"row 3 has '' in column 'a', which is no finite number \(1 of 2 rows\)"),
        ("a,kind\n1,x\nnan,y\n", "row 3 has 'nan' in column 'a'"),
        ("a,kind\n\n1,x\n\nnan,y\n", "row 5 has 'nan' in column 'a'"),
        ("a,kind\n1,x\nhello,y\n", r"row 3 has 'hello'.* drop = \['a'\]"),
        ("a,kind\n1,x\n2, \n3,y\n", "row 3 has no 'kind'"),
        ("a,kind\n1,x\n2,x\n", "column 'kind' has one class only"),
        ("a,b\n1,2\n", "unknown column 'kind'"),
        ("a,kind\n1,x\n1e39,y\n", "row 3 has '1e39' in column 'a'"),
        ("a,kind\n1700000000,x\n1700000001,y\n", r"'a' lie too close together .*Subtract .*drop = \['a'\]"),
        ("a,kind\n1,x\n2, x\n", "column 'kind' has one class only"),
        ("a,a,kind\n1,2,x\n", "same name"),
        ("kind\nx\ny\n", "no column is left"),
        ("a,kind\n", "1 lines"),
        ("", "0 lines"),
        ('a,kind\n"1,x\n', "no table of text"),
        ("a;kind\n1;x\n2;y\n", "makes one column of 'a;kind'. Set separator = ';'"),
        ("a,kind\n1,M\xfcll\n2,y\n", "not written in UTF-8"),
    ],
)
def test_tables_that_make_no_sense(folder: Folder, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "table.csv").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=f"table.csv: .*{why}"):
        load(folder, "csv", path=str(tmp_path / "table.csv"), label="kind")


def test_a_quantity_is_no_class(folder: Folder, tmp_path: Path) -> None:
    for labels, is_refused in ((RNG.normal(size=200), True), (np.arange(200) % 40, False)):
        write_csv(tmp_path / "table.csv", [{"a": k, "kind": label} for k, label in enumerate(labels)])
        with pytest.raises(DataError, match="that is a quantity") if is_refused else nullcontext():
            load(folder, "csv", path=str(tmp_path / "table.csv"), label="kind")


def test_every_row_of_a_table_names_its_client(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,kind,site\n1,x,1\n2,y,\n")
    with pytest.raises(DataError, match="row 3 has no 'site'"):
        load(folder, "csv", path=str(tmp_path / "table.csv"), label="kind", client="site")
    for clients in ([1.0, np.nan, 2.0], [1.2, 1.8, 2.0], [0, np.inf, 1]):
        with pytest.raises(DataError, match="client has values that are no whole numbers"):
            from_arrays(np.ones((3, 2)), np.arange(3), client=np.array(clients))


def test_a_file_that_one_may_not_read_is_not_to_be_deleted(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "table.csv", rows())

    def refuse(path: Path, *_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(
        DataError, match=r"table\.csv: cannot be read \(Permission denied\). Make it readable"
    ):
        folder.digest(tmp_path / "table.csv", "sha256")


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("csv", "label", 3),
        ("csv", "path", ["a"]),
        ("csv", "drop", "pulse"),
        ("csv", "seed", "x"),
        ("csv", "seed", -1),
        ("csv", "normalise", "maybe"),
        ("synthetic", "lam", "x"),
        ("synthetic", "clients", 2.5),
        ("mit-bih", "window", "x"),
    ],
)
def test_options_of_data_have_types(name: str, option: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"dataset {name}: {option} = .*: "):
        registry.dataset(
            name, {"path": "t.csv", "label": "kind", option: value} if name == "csv" else {option: value}
        )


def test_a_table_with_a_strange_test_column(folder: Folder, tmp_path: Path) -> None:
    write_csv(tmp_path / "table.csv", [row | {"held": "maybe"} for row in rows()])
    with pytest.raises(DataError, match="'held' has 'maybe'"):
        load(folder, "csv", path=str(tmp_path / "table.csv"), **OPTIONS)


def pack(top: Path, target: Path) -> Path:
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in top.rglob("*.*"):
                archive.write(path, path.relative_to(top))
    else:
        with tarfile.open(target, "w:gz") as archive:
            archive.add(top, ".")
    return target


@pytest.mark.parametrize("form", ["folder", "all.zip", "all.tar.gz"])
def test_image_folder_with_clients(folder: Folder, tmp_path: Path, form: str) -> None:
    top = tmp_path / "pictures"
    make.write_images(top, ["cat", "dog"], count=10, side=20)
    names = [f"{kind}/picture_{k}.png" for kind in ("cat", "dog") for k in range(10)]
    write_csv(tmp_path / "clients.csv", [{"file": n, "client": f"phone {n[-5]}"} for n in names])
    path = top if form == "folder" else pack(top, tmp_path / form)
    data = load(folder, "image-folder", path=str(path), size=16, clients=str(tmp_path / "clients.csv"))
    assert tuple(data.x.shape) == (20, 3, 16, 16)
    assert data.classes == ("cat", "dog")
    assert data.owners is not None
    assert data.owners.tolist() == [*range(10), *range(10)]
    assert data.clients == tuple(f"phone {k}" for k in range(10))
    plain = load(folder, "image-folder", path=str(path), size=20, colour=False)
    assert tuple(plain.x.shape) == (20, 1, 20, 20)
    assert np.bincount(plain.y[plain.test]).tolist() == [2, 2]
    assert abs(float(plain.x[plain.train].mean())) < 1e-5


def test_image_folder_with_its_own_test_part(folder: Folder, tmp_path: Path) -> None:
    make.write_images(tmp_path / "own" / "train", ["a", "b"], count=3)
    make.write_images(tmp_path / "own" / "test", ["a", "b"], count=1)
    data = load(folder, "image-folder", path=str(tmp_path / "own"))
    assert (len(data.train), len(data.test)) == (6, 2)


def test_what_systems_leave_behind_is_no_picture(folder: Folder, tmp_path: Path) -> None:
    top = tmp_path / "all"
    make.write_images(top / "mine", ["cat", "train"])  # a class may be called train
    before = load(folder, "image-folder", path=str(pack(top, tmp_path / "clean.zip")))
    for left in (
        "__MACOSX/mine/cat/._picture_0.png",
        "mine/cat/._picture_0.png",
        "mine/.ipynb_checkpoints/a.png",
    ):
        (top / left).parent.mkdir(parents=True, exist_ok=True)
        (top / left).write_bytes(b"no picture")
    data = load(folder, "image-folder", path=str(pack(top, tmp_path / "all.zip")))
    assert data.classes == before.classes == ("cat", "train")
    assert len(data.y) == len(before.y)


@pytest.mark.parametrize("stray", ["a.png", "train/a.png", "train/cat/deep/a.png"])
def test_pictures_are_all_as_deep(folder: Folder, tmp_path: Path, stray: str) -> None:
    for part in ("train", "test"):
        make.write_images(tmp_path / "own" / part, ["cat", "dog"])
    (tmp_path / "own" / stray).parent.mkdir(exist_ok=True)
    (tmp_path / "own/train/cat/picture_0.png").rename(tmp_path / "own" / stray)
    with pytest.raises(
        DataError, match=f"{stray}: should be in a class folder" if "/" in stray else "class folder"
    ):
        load(folder, "image-folder", path=str(tmp_path / "own"))


def test_sixteen_bits_and_transparency(tmp_path: Path) -> None:
    ramp = Image.fromarray(np.arange(0, 65536, 4096, dtype=np.uint16).reshape(4, 4))
    ink = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    ink.putpixel((0, 0), (0, 0, 0, 255))
    for picture in (ramp, ink):
        picture.save(tmp_path / "one.png")
        found = image((tmp_path / "one.png").read_bytes(), "one.png", 4, False, False)[0]
        if picture is ramp:
            assert found.ravel().tolist() == [k * 4096 // 257 for k in range(16)]
        else:
            assert found[0, 0] == 0
            assert (found.ravel()[1:] == 255).all()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("file,client\ncat/picture_0.png,\n", "no client for"),
        ("file,client\ncat/picture_0.png\n", "no client for"),
        ("file,client\n" + "cat/picture_0.png,me\n" * 2, "1 files are listed more than once"),
    ],
)
def test_every_picture_has_one_client(folder: Folder, tmp_path: Path, text: str, why: str) -> None:
    make.write_images(tmp_path / "two", ["cat", "dog"])
    (tmp_path / "clients.csv").write_text("\ufeff" + text, encoding="utf-8")
    with pytest.raises(DataError, match=why):
        load(folder, "image-folder", path=str(tmp_path / "two"), clients=str(tmp_path / "clients.csv"))


def test_image_folders_that_make_no_sense(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not found, neither"):
        load(folder, "image-folder", path="nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        load(folder, "image-folder", path=str(tmp_path / "empty"))
    make.write_images(tmp_path / "one", ["cat"])
    with pytest.raises(DataError, match="one class folder only"):
        load(folder, "image-folder", path=str(tmp_path / "one"))
    make.write_images(tmp_path / "two", ["cat", "dog"])
    (tmp_path / "clients.csv").write_text("file,client\ncat/picture_0.png,me\n")
    with pytest.raises(DataError, match=r"no client for cat/picture_1.png and 2 more"):
        load(folder, "image-folder", path=str(tmp_path / "two"), clients=str(tmp_path / "clients.csv"))
    (tmp_path / "text.txt").write_text("x")
    with pytest.raises(DataError, match="neither a folder"):
        load(folder, "image-folder", path=str(tmp_path / "text.txt"))
    with pytest.raises(ConfigError, match="size"):
        registry.dataset("image-folder", {"path": "x", "size": 0})
