"""Keyword spotting: ten words of Speech Commands as 50x16 MFCC; its clients are the speakers."""

import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.data.archive import Entry, entries
from fedskew.data.dataset import Dataset
from fedskew.data.folder import File, Folder
from fedskew.data.mfcc import COEFFICIENTS, FRAMES, RATE, mfcc
from fedskew.data.numbering import numbered
from fedskew.data.safe import npz
from fedskew.data.source import Source
from fedskew.errors import ConfigError, DataError

URL = "http://download.tensorflow.org/data/"
ARCHIVES = (
    File(
        "speech_commands_v0.01.tar.gz",
        f"{URL}speech_commands_v0.01.tar.gz",
        sha256="743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d",
    ),
    File(
        "speech_commands_v0.02.tar.gz",
        f"{URL}speech_commands_v0.02.tar.gz",
        sha256="af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
    ),
)
FEATURES = "kws-mfcc.npz"
LISTS = {"validation_list.txt": 1, "testing_list.txt": 2}  # every other file is for training
BELOW = ("speech_commands", "speech_commands_v0.01", "speech_commands_v0.02", "kws")
WORDS = ("one", "two", "three", "four", "five", "down", "left", "right", "stop", "go")
LARGEST = 1 << 22  # bytes of one member; the lists have 170 thousand
TOGETHER = 64  # clips transformed at once
# Of the 18,568 training clips of v0.01, by coefficient; fixed, so that any part of the data agrees.
MEAN = (
    *(-279.602, 51.087, 1.75, 10.556, -0.846, 3.675, -1.356, 1.551),
    *(-0.813, 1.625, -1.752, 1.176, -1.25, 1.414, -1.381, 0.719),
)
STD = (
    *(106.407, 38.525, 20.227, 16.12, 13.828, 10.436, 9.787, 8.607),
    *(7.601, 7.334, 6.617, 6.227, 5.815, 5.441, 5.142, 4.852),
)


class Clips(NamedTuple):
    """Features of many clips with the names of their files and the publisher's split."""

    names: list[str]  # word/speaker_nohash_k.wav
    features: NDArray[np.float32]  # [n, 50, 16]
    split: NDArray[np.int64]  # 0 train, 1 validation, 2 test


@dataclass(frozen=True)
class KWS(Source):
    """Spoken words 1x50x16 (Warden 2018), standardised; split by the publisher's lists, not as FedOVA did.

    Taken from a feature file kws-mfcc.npz, from folders of WAV files, or from the publisher's archive.
    """

    name: ClassVar[str] = "kws"
    words: Sequence[str] = WORDS
    form: Literal["any", "features", "wav"] = "any"
    with_validation: bool = False  # counts the publisher's validation clips as training clips

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        if len(set(self.words)) < 2 or len(set(self.words)) < len(self.words):
            raise ConfigError(f"kws: words = {list(self.words)} must be at least two different words.")
        if self.form not in ("any", "features", "wav"):
            raise ConfigError(f"kws: form = {self.form!r} is none of any, features, wav.")

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The feature file, else the folder of WAV files, else the archive."""
        places = folder.places(BELOW)
        features = [place / FEATURES for place in places if (place / FEATURES).is_file()]
        if features and self.form != "wav":
            return (features[0],)
        if self.form == "features":
            raise DataError(f"{FEATURES} not found in {', '.join(map(str, places))}.")
        for place in places:
            if all((place / word).is_dir() for word in self.words):
                return (place,)
        packed = [file for file in ARCHIVES if any((place / file.name).is_file() for place in places)]
        return (folder.find((packed or ARCHIVES)[0], BELOW),)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The clips of the chosen words, word by word."""
        source = files[0]
        clips = from_features(source) if source.name == FEATURES else from_wav(source, self.words, folder)
        label = {word: k for k, word in enumerate(self.words)}
        absent = sorted(set(self.words) - {word_of(name) for name in clips.names})
        if absent:
            raise DataError(f"{source}: holds no clip of {', '.join(absent)}.")
        kept = [k for k, name in enumerate(clips.names) if word_of(name) in label]
        kept = [k for k in kept if self.with_validation or clips.split[k] != 1]
        kept.sort(key=lambda k: (label[word_of(clips.names[k])], clips.names[k]))
        names, is_test = [clips.names[k] for k in kept], clips.split[kept] == 2
        x = (clips.features[kept] - np.array(MEAN)) / np.array(STD)
        return Dataset(
            name=self.name,
            x=torch.from_numpy(x.astype(np.float32))[:, None],
            y=torch.tensor([label[word_of(name)] for name in names]),
            train=np.flatnonzero(~is_test),
            test=np.flatnonzero(is_test),
            classes=tuple(self.words),
            owners=numbered([speaker_of(name) for name in names])[0],
        )


def word_of(name: str) -> str:
    """The word of word/speaker_nohash_k.wav."""
    return name.split("/")[0]


def speaker_of(name: str) -> str:
    """The speaker of word/speaker_nohash_k.wav."""
    return name.split("/")[1].split("_")[0]


def from_features(path: Path) -> Clips:
    """The clips of a feature file: mfcc_x50, split and path, one row a clip."""
    held = npz(path, ("mfcc_x50", "split", "path"))
    if len(held) < 3:
        raise DataError(f"{path}: holds {', '.join(held) or 'nothing'}, not mfcc_x50, split and path.")
    x, split = held["mfcc_x50"], held["split"]
    shapes_agree = x.shape[1:] == (FRAMES, COEFFICIENTS) and len(x) == len(split) == len(held["path"])
    if x.dtype != np.int16 or not shapes_agree or not np.isin(split, (0, 1, 2)).all():
        raise DataError(f"{path}: {x.dtype}{list(x.shape)} is no list of {FRAMES}x{COEFFICIENTS} features.")
    names = [bytes(name).decode("ascii", "replace") for name in held["path"].astype("S")]
    if strange := [name for name in names if name.count("/") != 1]:
        raise DataError(f"{path}: {strange[0]!r} is not of the form word/speaker_nohash_k.wav.")
    return Clips(names, x.astype(np.float32) / np.float32(50), split.astype(np.int64))


def from_wav(path: Path, words: Sequence[str], folder: Folder) -> Clips:
    """The clips of the words in a folder or archive, and which list of the publisher names them."""
    names: list[str] = []
    waiting: list[NDArray[np.float64]] = []
    done: list[NDArray[np.float64]] = []
    listed: dict[str, int] = {}
    lists = set()
    for entry in entries(path, lambda name: _wanted(name, words), LARGEST):
        if entry.name in LISTS:
            lists.add(entry.name)
            listed |= dict.fromkeys(entry.data.decode("ascii", "replace").split(), LISTS[entry.name])
            continue
        names.append(entry.name)
        waiting.append(samples(entry, path))
        if len(waiting) == TOGETHER:
            done.append(mfcc(np.stack(waiting)))
            waiting = []
            folder.progress("computing MFCC", len(names), 0)
    done += [mfcc(np.stack(waiting))] if waiting else []
    if not names or lists != set(LISTS):
        raise DataError(f"{path}: no clips, or not the publisher's {' and '.join(LISTS)} beside them.")
    split = np.array([listed.get(name, 0) for name in names])
    return Clips(names, np.concatenate(done).astype(np.float32), split)


def _wanted(name: str, words: Sequence[str]) -> bool:
    path = PurePosixPath(name)
    return name in LISTS or (path.suffix == ".wav" and path.parent.as_posix() in words)


def samples(entry: Entry, path: Path) -> NDArray[np.float64]:
    """The first second of a 16 kHz mono 16-bit WAV file, filled with silence at its end."""
    try:
        with wave.open(io.BytesIO(entry.data)) as clip:
            form = (clip.getframerate(), clip.getnchannels(), clip.getsampwidth())
            raw, whole = clip.readframes(RATE), 2 * min(clip.getnframes(), RATE)
    except (wave.Error, EOFError, ValueError) as error:
        raise DataError(f"{path / entry.name}: is no whole WAV file ({error}).") from error
    if form != (RATE, 1, 2) or len(raw) != whole or not raw:
        raise DataError(f"{path / entry.name}: {form} is not 16 kHz, one channel, two bytes, or it was cut.")
    values = np.frombuffer(raw, "<i2") / 32768
    return np.pad(values, (0, RATE - len(values)))
