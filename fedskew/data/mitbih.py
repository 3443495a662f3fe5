"""MIT-BIH Arrhythmia: windows around heartbeats of lead MLII; its clients are the records."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.data.dataset import Dataset
from fedskew.data.folder import File, Folder
from fedskew.data.safe import read_bytes
from fedskew.data.source import Source
from fedskew.data.split import stratified
from fedskew.errors import ConfigError, DataError
from fedskew.ranges import Natural

URL = "https://physionet.org/files/mitdb/1.0.0/"
SUMS = File(
    "SHA256SUMS.txt",
    f"{URL}SHA256SUMS.txt",
    sha256="b61158a96d5f2ca80edfb354a9a66a6324836c390a84e1966dcee2b907d6be43",
)
BELOW = ("mitdb", "mit-bih", "mit-bih-arrhythmia-database-1.0.0")
ENDINGS = (".hea", ".dat", ".atr")
SYMBOLS = tuple("NLRV/AfFjaEJ")  # the twelve most frequent kinds of beat
LEAD = "MLII"
LARGEST = 1 << 22  # bytes of one file; a signal has 1.95 million


class Beats(NamedTuple):
    """The windows of one record, the kinds of their beats, and how many windows left the record."""

    x: NDArray[np.float32]  # [n, window]
    y: NDArray[np.int64]
    left_out: int


@dataclass(frozen=True)
class MITBIH(Source):
    """Heartbeats 1x256 of the 46 records with lead MLII, twelve classes (Moody & Mark 2001), standardised.

    Records 201 and 202 are one person, so 46 clients are 45 people. Every class of a record is split 80/20.
    """

    name: ClassVar[str] = "mit-bih"
    window: int = 256
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not 2 <= self.window <= 4096:
            raise ConfigError(f"mit-bih: window = {self.window} is not within 2..4096 samples.")

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """Header, signal and annotations of every record, checked against the publisher's hashes."""
        sums = folder.find(SUMS, BELOW)
        found = []
        for line in read_bytes(sums, LARGEST).decode("ascii", "replace").splitlines():
            sha256, _, name = line.partition(" ")
            if Path(name).name == name and Path(name).stem.isdigit() and Path(name).suffix in ENDINGS:
                found.append(folder.find(File(name, URL + name, sha256=sha256), BELOW))
        return tuple(found)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The beats of every record that has the lead."""
        stems = sorted({path.with_suffix("") for path in files})
        found = []
        for done, stem in enumerate(stems, 1):
            found.append(beats(stem, self.window))
            folder.progress("reading mit-bih", done, len(stems))
        named = {stem.name: record for stem, record in zip(stems, found, strict=True) if record is not None}
        kept = list(named.values())
        if not kept:
            raise DataError(f"{files[0].parent}: no record has the lead {LEAD}.")
        owners = np.repeat(np.arange(len(kept)), [len(record.y) for record in kept])
        y = np.concatenate([record.y for record in kept])
        train, test = stratified(y, self.seed, groups=owners)
        x = torch.from_numpy(np.concatenate([record.x for record in kept]))[:, None]
        return Dataset(self.name, x, torch.from_numpy(y), train, test, SYMBOLS, owners, tuple(named))


def beats(stem: Path, window: int) -> Beats | None:
    """The beats of the record `stem`, or None if it has no lead MLII."""
    record = read_record(stem)
    if record is None:
        return None
    signal, marks, symbols = record
    ours = [(at, SYMBOLS.index(s)) for at, s in zip(marks, symbols, strict=True) if s in SYMBOLS]
    start = np.array([at for at, _ in ours], np.int64) - window // 2
    inside = (start >= 0) & (start + window <= len(signal))
    x = signal[start[inside, None] + np.arange(window)].astype(np.float64)
    deviation = x.std(axis=1, keepdims=True)
    x = (x - x.mean(axis=1, keepdims=True)) / np.where(deviation > 0, deviation, 1)
    labels = np.array([label for _, label in ours], np.int64)
    return Beats(x.astype(np.float32), labels[inside], int((~inside).sum()))


def read_record(stem: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]] | None:
    """The samples of lead MLII, and where and of what kind its annotations are; None without that lead."""
    wfdb = _wfdb()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # wfdb's use of pandas warns about itself
            header = wfdb.rdheader(str(stem))
            check_header(header, stem)
            if LEAD not in header.sig_name:
                return None
            signal = wfdb.rdrecord(str(stem), channel_names=[LEAD], physical=False).d_signal[:, 0]
            marks = wfdb.rdann(str(stem), "atr")
            return signal, marks.sample, marks.symbol
    except DataError:
        raise
    except Exception as error:  # a damaged record can fail in any way; none of them is ours
        raise DataError(f"{stem}.hea, .dat or .atr: is no whole record ({error!r}). Get it again.") from error


def check_header(header: Any, stem: Path) -> None:
    """Refuses a header that points to other files, or a signal or annotation file that is not whole."""
    if header.file_name is None or set(header.file_name) != {f"{stem.name}.dat"}:
        raise DataError(f"{stem}.hea: names {header.file_name} where {stem.name}.dat belongs.")
    size = stem.with_suffix(".dat").stat().st_size
    if header.fmt != ["212", "212"] or size != 3 * header.sig_len:  # two samples of 12 bits
        raise DataError(
            f"{stem}.dat: {size:,} bytes are not {header.sig_len} samples of two leads. Get it again."
        )
    if read_bytes(stem.with_suffix(".atr"), LARGEST)[-2:] != b"\0\0":
        raise DataError(f"{stem}.atr: has no end, so it was cut. Get it again.")


def _wfdb() -> Any:
    try:
        import wfdb
    except ImportError as error:
        raise DataError("mit-bih is read by the package wfdb: pip install 'fedskew[ecg]'.") from error
    return wfdb
