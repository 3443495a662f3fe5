"""What stands behind `fedskew data`: the list, the check, the places; and where files are looked for."""

from pathlib import Path

import data_makers as make
import numpy as np
import pytest

from fedskew.data import manage, names
from fedskew.data.folder import File, Folder, user_cache
from fedskew.errors import ConfigError, DataError


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDSKEW_OFFLINE", "1")
    make.write_leaf(tmp_path / "data" / "femnist")
    make.write_mnist(tmp_path / "data" / "mnist")
    return tmp_path / "data"


def test_the_list_names_everything_and_where_it_is(data: Path) -> None:
    listed = {line.name: line for line in manage.listing(data)}
    assert tuple(listed) == names()
    assert listed["digits"].state == "embedded"
    assert (listed["femnist"].state, listed["femnist"].place) == ("here", data / "femnist")
    assert (listed["mnist"].state, listed["mnist"].place) == ("here", data / "mnist")
    assert listed["svhn"].state == "absent"
    assert (listed["csv"].state, listed["csv"].options[:2]) == ("yours", ("path", "label"))
    assert all(line.about for line in listed.values())


def test_check_counts_what_the_files_hold(data: Path) -> None:
    found = manage.check("femnist", data)
    assert (found.shape, found.clients) == ((1, 28, 28), 4)
    assert (sum(found.train.values()), sum(found.test.values()), len(found.train)) == (20, 20, 62)
    assert [path.parent.name for path, _ in found.files] == ["train", "test"]
    assert all(len(sha256) == 64 for _, sha256 in found.files)
    assert manage.check("digits").train["0"] == 142


def test_check_and_where_refuse_a_file_that_is_not_the_publishers(data: Path) -> None:
    for look in (manage.check, manage.where):
        with pytest.raises(DataError, match=r"mnist/train-images.*size or hash"):
            look("mnist", data)
    assert manage.where("digits") == ()
    assert len(manage.where("femnist", data)) == 2
    with pytest.raises(ConfigError, match="unknown dataset"):
        manage.where("minst", data)


def test_get_prepares(data: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.eye(6), y=np.arange(6) % 2)
    seen: list[str] = []
    got = manage.get(
        "femnist", data, progress=lambda what, done, total: seen.append(f"{what} {done}/{total}")
    )
    assert seen == ["reading femnist 1/2", "reading femnist 2/2"]
    assert len(got.train) == 20
    assert len(list((tmp_path / "cache" / "fedskew" / "prepared").iterdir())) == 1
    assert len(manage.get("arrays", options={"path": str(tmp_path / "own.npz")}).y) == 6


def test_a_missing_file_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    folder = Folder(cache=tmp_path, download=False)
    with pytest.raises(DataError) as caught:
        folder.find(File("x.gz", "https://example.org/x.gz"), ["mine"])
    for part in (
        "x.gz not found",
        str(tmp_path / "raw" / "mine"),
        "$FEDSKEW_DATA",
        "https://example.org/x.gz",
    ):
        assert part in str(caught.value)


def test_the_places_and_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSKEW_DATA", str(tmp_path / "shared"))
    folder = Folder(data_dir=tmp_path / "given", cache=tmp_path / "cache", download=False)
    file, contents = File("x"), {}
    for place in ("given/mine", "shared/mine", "cache/raw/mine", "given", "shared", "cache/raw", "debian"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "x").write_text(place)
        contents[place] = tmp_path / place / "x"
    for path in contents.values():
        assert folder.find(file, ["mine"], also=[tmp_path / "debian"]) == path
        path.unlink()


def test_another_datasets_file_of_the_same_name_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fashion-MNIST's files are named like MNIST's, and a flat folder can hold either."""
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    folder = Folder(data_dir=tmp_path, cache=tmp_path / "cache", download=False)
    (tmp_path / "x").write_bytes(b"mnist")
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian" / "x").write_bytes(b"abc")
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (
        folder.find(File("x", sha256=sha256), ["fashion"], [tmp_path / "debian"]) == tmp_path / "debian" / "x"
    )
    assert folder.trusts(tmp_path / "debian" / "x", File("x", sha256=sha256, size=3))
    assert not folder.trusts(tmp_path / "debian" / "x", File("x", sha256=sha256, size=4))


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/somewhere"}, "/somewhere/fedskew"),
        ("linux", {}, "~/.cache/fedskew"),
        ("linux", {"XDG_CACHE_HOME": ""}, "~/.cache/fedskew"),
        ("darwin", {}, "~/Library/Caches/fedskew"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/fedskew/Cache"),
    ],
)
def test_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert user_cache() == Path(expected).expanduser()
