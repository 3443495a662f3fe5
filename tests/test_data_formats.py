"""Every dataset with files, read from small files in its publisher's true format."""

import shutil
import tarfile
from pathlib import Path

import data_makers as make
import numpy as np
import pytest

from fedskew.data import cifar, digest, images, kws, mitbih, registry, scale
from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder
from fedskew.errors import ConfigError, DataError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    return make.own_folder(tmp_path)


def load(folder: Folder, name: str, **options: object) -> Dataset:
    data = registry.load(name, options, folder=folder)
    assert data.name == name
    assert data.x.dtype.is_floating_point
    assert len(data.x) == len(data.y)
    assert not set(data.train.tolist()) & set(data.test.tolist())
    assert int(data.y.min()) >= 0
    assert int(data.y.max()) < len(data.classes)
    return data


def raw(data: Dataset, mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray:
    """The bytes an image tensor was made from."""
    axes = (1, -1, 1, 1)
    return (data.x.double().numpy() * np.reshape(std, axes) + np.reshape(mean, axes)) * 255


@pytest.mark.parametrize("below", ["mnist", "."])
def test_mnist(folder: Folder, tmp_path: Path, below: str) -> None:
    held = make.write_mnist(tmp_path / "data" / below)
    data = load(folder, "mnist")
    expected = np.concatenate([held["train-images-idx3-ubyte"], held["t10k-images-idx3-ubyte"]])
    np.testing.assert_allclose(raw(data, (0.1307,), (0.3081,))[:, 0], expected, atol=1e-3)
    assert (len(data.train), len(data.test)) == (12, 5)
    assert data.y[data.test].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("place", ["cifar-10-batches-py", "cifar10/cifar-10-batches-py", "."])
def test_cifar10_python_batches(folder: Folder, tmp_path: Path, place: str) -> None:
    held = make.write_cifar10_python(tmp_path / "data" / place)
    data = load(folder, "cifar10")
    expected = np.concatenate([x for x, _ in held.values()]).reshape(-1, 3, 32, 32)
    got = raw(data, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    np.testing.assert_allclose(got, expected, atol=1e-3)
    assert data.y.tolist() == [label for _, y in held.values() for label in y]
    assert len(data.train) == 100
    assert data.classes[3] == "cat"


def test_cifar10_binary_is_the_same_in_a_folder_and_in_the_archive(folder: Folder, tmp_path: Path) -> None:
    held = make.write_cifar10_binary(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "data").mkdir()
    archive = tmp_path / "data" / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    packed = load(folder, "cifar10", batches=[5, 2])
    archive.unlink()
    shutil.move(tmp_path / "cifar-10-batches-bin", tmp_path / "data")
    plain = load(folder, "cifar10", batches=[5, 2])
    assert (packed.x == plain.x).all()
    assert packed.y.tolist() == [
        label for name in ("data_batch_5", "data_batch_2", "test_batch") for label in held[name][1]
    ]
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["cifar-10-batches-bin"]


@pytest.mark.parametrize("binary", [True, False])
def test_cifar100_takes_the_fine_labels(folder: Folder, tmp_path: Path, binary: bool) -> None:
    held = make.write_cifar100(
        tmp_path / "data" / ("cifar-100-binary" if binary else "cifar-100-python"), binary
    )
    data = load(folder, "cifar100")
    assert data.y.tolist() == held["train"][1] + held["test"][1]
    expected = np.concatenate([held["train"][0], held["test"][0]]).reshape(-1, 3, 32, 32)
    got = raw(data, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
    np.testing.assert_allclose(got, expected, atol=1e-3)
    assert (data.classes[0], data.classes[99], len(data.classes)) == ("apple", "worm", 100)


def test_absent_batches_are_named_and_a_part_can_be_asked_for(folder: Folder, tmp_path: Path) -> None:
    place = tmp_path / "data" / "cifar-10-batches-py"
    make.write_cifar10_python(place)
    (place / "data_batch_3").unlink()
    (place / "data_batch_5").unlink()
    with pytest.raises(DataError, match=r"no data_batch_3, data_batch_5 beside.*batches = \[1, 2\]"):
        load(folder, "cifar10")
    assert len(load(folder, "cifar10", batches=[1, 2]).train) == 40
    for wrong in ([0], [6], [1, 1], []):
        with pytest.raises(ConfigError, match="batches"):
            registry.dataset("cifar10", {"batches": wrong})


def test_the_payload_of_a_pickle_does_not_run(tmp_path: Path) -> None:
    witness = tmp_path / "it_ran"
    payload = (
        b"\x80\x02cos\nsystem\nU"
        + bytes([len(str(witness)) + 6])
        + b"touch "
        + str(witness).encode()
        + b"\x85R."
    )
    with pytest.raises(DataError, match=r"the name os\.system"):
        cifar.python(cifar.Piece(tmp_path / "data_batch_1", payload), b"labels")
    assert not witness.exists()


def test_svhn_calls_ten_zero(folder: Folder, tmp_path: Path) -> None:
    held = make.write_svhn(tmp_path / "data" / "svhn")
    data = load(folder, "svhn")
    assert data.y[:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    got = raw(data, (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
    np.testing.assert_allclose(got[20:], held["test"].transpose(3, 2, 0, 1), atol=1e-3)


@pytest.mark.parametrize("packed", [False, True])
def test_cinic10(folder: Folder, tmp_path: Path, packed: bool) -> None:
    top = tmp_path / ("plain" if packed else "data/CINIC-10")
    for part in ("train", "valid", "test"):
        make.write_images(top / part, list(images.OBJECTS), count=2)
    if packed:
        (tmp_path / "data").mkdir()
        with tarfile.open(tmp_path / "data" / "CINIC-10.tar.gz", "w:gz") as tar:
            tar.add(top, ".")
    data = load(folder, "cinic10")
    assert (len(data.train), len(data.test), tuple(data.x.shape[1:])) == (20, 20, (3, 32, 32))
    assert len(load(folder, "cinic10", with_validation=True).train) == 40


def test_imagenet_subset_is_cut_and_scaled(folder: Folder, tmp_path: Path) -> None:
    names = [f"n{k:08d}" for k in range(12)]
    for part in ("train", "val"):
        make.write_images(
            tmp_path / "data" / "imagenet-subset" / part, names, count=1, side=80, ending=".jpeg"
        )
    data = load(folder, "imagenet-subset")
    assert (len(data.train), len(data.test), tuple(data.x.shape[1:])) == (12, 12, (3, 64, 64))
    shutil.rmtree(tmp_path / "data" / "imagenet-subset" / "train" / names[0])
    shutil.rmtree(tmp_path / "data" / "imagenet-subset" / "val" / names[0])
    with pytest.raises(DataError, match="11 class folders where twelve"):
        load(folder, "imagenet-subset")


def test_femnist_has_writers(folder: Folder, tmp_path: Path) -> None:
    make.write_leaf(tmp_path / "data" / "femnist")
    data = load(folder, "femnist")
    assert data.owners is not None
    assert data.owners.tolist() == [k for _ in range(2) for k in range(4) for _ in range(5)]
    assert data.clients == ("f0000_0", "f0001_1", "f0002_2", "f0003_3")
    assert (len(data.train), len(data.test), tuple(data.x.shape[1:])) == (20, 20, (1, 28, 28))
    assert abs(float(data.x[data.train].mean())) < 1e-5
    assert abs(float(data.x[data.train].std(correction=0)) - 1) < 1e-5


@pytest.mark.parametrize("packed", [False, True])
def test_kws_from_recordings(folder: Folder, tmp_path: Path, packed: bool) -> None:
    place = tmp_path / "data" / "speech_commands"
    make.write_speech(place, ["go", "stop"])
    if packed:  # the publisher's member names begin with ./
        with tarfile.open(tmp_path / "data" / "speech_commands_v0.01.tar.gz", "w:gz") as tar:
            tar.add(place, ".")
        shutil.rmtree(place)
    data = load(folder, "kws", words=["stop", "go"])
    assert data.classes == ("stop", "go")
    assert data.y.tolist() == [0] * 5 + [1] * 5
    assert data.owners is not None
    assert data.owners.tolist() == [0, 1, 2, 3, 4] * 2  # the speaker for validation is left out
    assert data.test.tolist() == [4, 9]
    assert len(load(folder, "kws", words=["stop", "go"], with_validation=True).train) == 10
    with pytest.raises(DataError, match="speech_commands"):
        load(folder, "kws")  # eight words are missing


@pytest.mark.parametrize("absent", ["testing_list.txt", "validation_list.txt"])
def test_kws_needs_both_lists_of_the_publisher(folder: Folder, tmp_path: Path, absent: str) -> None:
    place = tmp_path / "data" / "speech_commands"
    make.write_speech(place, ["go", "stop"])
    (place / absent).unlink()
    with pytest.raises(DataError, match=absent):
        load(folder, "kws", words=["stop", "go"])


def test_kws_from_features_is_the_same_dataset(folder: Folder, tmp_path: Path) -> None:
    place = tmp_path / "data" / "speech_commands"
    make.write_speech(place, ["go", "stop"])
    recorded = load(folder, "kws", words=["go", "stop"])
    clips = kws.from_wav(place, ["go", "stop"], folder)
    np.savez(
        place / "kws-mfcc.npz",
        mfcc_x50=np.round(clips.features * 50).astype(np.int16),
        split=clips.split.astype(np.uint8),
        path=np.array(clips.names, "S64"),
        label=np.zeros(len(clips.names)),
    )
    featured = load(folder, "kws", words=["go", "stop"])
    assert float((featured.x - recorded.x).abs().max()) < 0.011 / min(kws.STD)
    assert (featured.y == recorded.y).all()
    assert (featured.owners == recorded.owners).all()
    assert (featured.test == recorded.test).all()
    assert (load(folder, "kws", words=["go", "stop"], form="wav").x == recorded.x).all()


def test_mit_bih_takes_the_lead_by_name(folder: Folder, tmp_path: Path) -> None:
    pytest.importorskip("wfdb", reason="wfdb is in the extra ecg")
    place = tmp_path / "data" / "mitdb"
    normal, early = 1, 5  # the codes of N and V
    beats = [(50, normal), (300, normal), (700, early), (2500, normal), (2990, early)]
    first = make.write_record(place, "100", ("MLII", "V1"), beats, 3000)
    second = make.write_record(place, "114", ("V5", "MLII"), beats[1:4], 3000)
    make.write_record(place, "102", ("V5", "V2"), beats, 3000)
    sums = [f"{digest.digest(p, 'sha256', tmp_path / 'memo')} {p.name}" for p in sorted(place.iterdir())]
    (place / "SHA256SUMS.txt").write_text("\n".join(sums))
    data = load(folder, "mit-bih")
    assert data.owners is not None
    assert data.owners.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.clients == ("100", "114"), "102 has no such lead"
    assert [data.classes[k] for k in data.y.tolist()] == ["N", "V", "N"] * 2
    for row, lead, at in ((0, first[0], 300), (4, second[1], 700)):
        window = lead[at - 128 : at + 128].astype(float)
        np.testing.assert_allclose(data.x[row, 0], (window - window.mean()) / window.std(), atol=1e-5)
    found = mitbih.beats(place / "100", 256)
    assert found is not None
    assert found.left_out == 2
    assert mitbih.beats(place / "102", 256) is None


def test_statistics_are_those_of_the_training_part() -> None:
    x = np.random.default_rng(3).integers(0, 256, (50, 3, 4, 4)).astype(np.uint8)
    mean, std = scale.statistics_of_bytes(x)
    np.testing.assert_allclose(mean, (x / 255).mean((0, 2, 3)), atol=1e-12)
    np.testing.assert_allclose(std, (x / 255).std((0, 2, 3)), atol=1e-12)
    expected = (x / 255 - np.reshape(mean, (1, 3, 1, 1))) / np.reshape(std, (1, 3, 1, 1))
    np.testing.assert_allclose(scale.scaled(x, mean, std), expected, atol=2e-6)
