"""MFCC against librosa, against a plain loop, and against the features of the true recordings."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from fedskew.data import kws
from fedskew.data.folder import Folder
from fedskew.data.mfcc import filters, mfcc

DATA = os.environ.get("FEDSKEW_DATA", "")


def clips() -> np.ndarray:
    rng = np.random.default_rng(0)
    t = np.arange(16_000) / 16_000
    tone = 0.3 * np.sin(2 * np.pi * 440 * t) + 0.1 * np.sin(2 * np.pi * 3100 * t)
    half = np.where(t < 0.5, rng.normal(0, 0.05, 16_000), 0)
    return np.stack(
        [rng.uniform(-1, 1, 16_000), tone, half, np.zeros(16_000), 1e-4 * rng.normal(size=16_000)]
    )


def test_equal_to_librosa() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # librosa's dependencies warn about themselves
        librosa = pytest.importorskip("librosa", reason="librosa is in the dev extra")
        sizes = {"n_mfcc": 16, "n_fft": 1024, "win_length": 640, "hop_length": 320, "n_mels": 40}
        theirs = [
            librosa.feature.mfcc(y=clip, sr=16_000, fmin=20, fmax=8000, **sizes).T[:50] for clip in clips()
        ]
    assert np.abs(mfcc(clips()) - np.stack(theirs)).max() < 1e-3


def test_one_frame_by_hand() -> None:
    """Frame 10 of a clip by the definitions: window, Fourier sums, triangles, logarithm, cosine sums."""
    clip = clips()[0]
    n = np.arange(1024)
    hann = np.where((n >= 192) & (n < 832), 0.5 - 0.5 * np.cos(2 * np.pi * (n - 192) / 640), 0)

    def decibels(frame: int) -> np.ndarray:
        piece = np.concatenate([np.zeros(512), clip, np.zeros(512)])[320 * frame :][:1024] * hann
        power = np.abs(np.fft.fft(piece)[:513]) ** 2
        return 10 * np.log10([max(1e-10, float(band @ power)) for band in filters()])

    loudest = max(decibels(frame).max() for frame in range(51))
    floor = np.maximum(decibels(10), loudest - 80)
    expected = [
        np.sqrt((1 if k == 0 else 2) / 40)
        * sum(floor[b] * np.cos(np.pi * k * (b + 0.5) / 40) for b in range(40))
        for k in range(16)
    ]
    np.testing.assert_allclose(mfcc(clip[None])[0, 10], expected, atol=1e-8)


def test_triangles_have_unit_area_and_cover_the_band() -> None:
    area = filters().sum(1) * 16_000 / 1024
    assert filters().shape == (40, 513)
    assert np.abs(area[20:] - 1).max() < 0.02  # the low ones are only a few bins wide
    assert filters()[:, 1].sum() == 0  # 15.6 Hz lies below the lowest edge
    assert filters()[-1, 511] > 0


@pytest.mark.skipif(
    not (Path(DATA) / "speech_commands").is_dir(), reason="no speech_commands in $FEDSKEW_DATA"
)
def test_equal_to_the_features_of_the_recordings() -> None:
    source = Path(DATA) / "speech_commands"
    ours = kws.from_wav(source, kws.WORDS, Folder(download=False))
    theirs = kws.from_features(source / kws.FEATURES)
    row = {name: k for k, name in enumerate(theirs.names)}
    rows = [row[name] for name in ours.names]
    assert len(rows) == 200
    assert np.abs(ours.features - theirs.features[rows]).max() <= 0.011
    assert (ours.split == theirs.split[rows]).all()
