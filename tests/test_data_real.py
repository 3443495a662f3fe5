"""The real files in $FEDSKEW_DATA (and Debian's Fashion-MNIST): counts per class, natural clients, time."""

import os
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fedskew.data import idx, kws, registry
from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder

DATA = Path(os.environ.get("FEDSKEW_DATA", "/nowhere"))


def needs(place: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not place.is_dir(), reason=f"no {place.name} in $FEDSKEW_DATA")


def counts(data: Dataset, positions: np.ndarray) -> list[int]:
    return np.bincount(data.y.numpy()[positions], minlength=len(data.classes)).tolist()


def read(name: str, tmp_path: Path, **options: object) -> Dataset:
    """Past the prepared copies, hashes checked."""
    source, folder = registry.dataset(name, options), Folder(cache=tmp_path, download=False)
    return source.read(source.files(folder), folder)


@needs(DATA / "mnist")
def test_mnist(tmp_path: Path) -> None:
    data = read("mnist", tmp_path)
    start = time.process_time()  # not the clock on the wall: the tests share their processors
    data = read("mnist", tmp_path)
    assert time.process_time() - start < 2
    assert counts(data, data.train) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert counts(data, data.test) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    train = data.x[: len(data.train)]
    assert abs(float(train.mean())) < 2e-3
    assert abs(float(train.std()) - 1) < 2e-3


@pytest.mark.skipif(not idx.DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_fashion_mnist_from_debian(tmp_path: Path) -> None:
    data = read("fashion-mnist", tmp_path)
    assert counts(data, data.train) == [6000] * 10
    assert counts(data, data.test) == [1000] * 10
    assert abs(float(data.x[: len(data.train)].mean())) < 2e-3
    assert abs(float(data.x[: len(data.train)].std()) - 1) < 2e-3


@needs(DATA / "cifar-10-batches-py")
def test_cifar10(tmp_path: Path) -> None:
    data = read("cifar10", tmp_path)
    assert counts(data, data.train) == [5000] * 10
    assert counts(data, data.test) == [1000] * 10
    train = data.x[: len(data.train)]
    assert float(train.mean((0, 2, 3)).abs().max()) < 2e-3
    assert float((train[:10_000].std((0, 2, 3)) - 1).abs().max()) < 2e-2


@needs(DATA / "speech_commands")
def test_kws(tmp_path: Path) -> None:
    data = read("kws", tmp_path, with_validation=True)
    everything = counts(data, np.arange(len(data.y)))
    assert everything == [2370, 2373, 2356, 2372, 2357, 2359, 2353, 2367, 2380, 2372]
    assert data.owners is not None
    assert len(np.unique(data.owners)) == 1844
    data = read("kws", tmp_path)
    assert (len(data.train), len(data.test)) == (18_568, 2_582)
    train = data.x[data.train, 0].double().numpy()
    assert np.abs(train.mean((0, 1))).max() < 1e-3
    assert np.abs(train.std((0, 1)) - 1).max() < 1e-3


@needs(DATA / "speech_commands")
def test_kws_recordings_and_features_are_the_same_dataset(tmp_path: Path) -> None:
    heard = read("kws", tmp_path, form="wav", with_validation=True)
    assert np.bincount(heard.y.numpy()).tolist() == [20] * 10
    featured = kws.from_features(DATA / "speech_commands" / kws.FEATURES)
    assert len(featured.names) == 23_659
    assert Counter(featured.split.tolist()) == {0: 18_568, 1: 2_509, 2: 2_582}


BEATS = {"N": 75_052, "L": 8_075, "R": 7_259, "V": 7_130, "/": 7_028, "A": 2_546, "F": 803}
TWELVE = "NLRV/AfFjaEJ"
NOT_BEATS = set("[!]x()ptu`'^|~+sT*D=\"@")


@needs(DATA / "mitdb")
def test_mit_bih_totals_and_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wfdb = pytest.importorskip("wfdb", reason="wfdb is in the extra ecg")
    data = read("mit-bih", tmp_path)
    records = sorted(path.stem for path in (DATA / "mitdb").glob("*.hea"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # wfdb's use of pandas warns about itself
        marks = {record: wfdb.rdann(str(DATA / "mitdb" / record), "atr") for record in records}
    totals = Counter(s for found in marks.values() for s in found.symbol if s not in NOT_BEATS)
    assert sum(totals.values()) == 109_494
    assert {s: totals[s] for s in BEATS} == BEATS
    assert data.owners is not None
    assert np.unique(data.owners).tolist() == list(range(46))
    left_out = 0
    for k, record in enumerate(record for record in records if record not in ("102", "104")):
        beats = [at for at, s in zip(marks[record].sample, marks[record].symbol, strict=True) if s in TWELVE]
        inside = sum(at >= 128 and at + 128 <= 650_000 for at in beats)
        assert int((data.owners == k).sum()) == inside
        left_out += len(beats) - inside
    with capsys.disabled():
        print(f"\nmit-bih: {left_out} of {len(data.y) + left_out} windows leave their record", end=" ")
    assert 0 < left_out <= 2 * 46
    shares = np.bincount(data.owners[data.test], minlength=46) / np.bincount(data.owners, minlength=46)
    assert shares.min() > 0.19
    assert shares.max() < 0.21


@needs(DATA / "tabular")
def test_letter(tmp_path: Path) -> None:
    data = read("csv", tmp_path, path="tabular/letter.csv.gz", label="lettr")
    assert tuple(data.x.shape) == (20_000, 16)
    assert data.classes == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    everything = dict(zip(data.classes, counts(data, np.arange(20_000)), strict=True))
    assert (everything["A"], everything["U"], everything["H"], everything["Z"]) == (789, 813, 734, 734)
