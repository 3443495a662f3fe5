"""Mel-frequency cepstral coefficients of one-second clips, equal to librosa's with the same settings."""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, rfft

RATE = 16_000  # samples a second, and samples of a clip
FFT, WINDOW, HOP = 1024, 640, 320
BANDS, LOWEST, HIGHEST = 40, 20.0, 8000.0
FRAMES, COEFFICIENTS = 50, 16
FLOOR, RANGE = 1e-10, 80.0  # of power; decibels below the loudest moment of the clip

Floats = NDArray[np.float64]


def mfcc(clips: Floats) -> Floats:
    """[n, 16000] samples in [-1, 1] to [n, 50, 16] coefficients (Davis & Mermelstein 1980)."""
    padded = np.pad(clips, ((0, 0), (FFT // 2, FFT // 2)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT, axis=1)[:, ::HOP]
    power = np.abs(rfft(frames * window())) ** 2
    decibels = 10 * np.log10(np.maximum(power @ filters().T, FLOOR))
    loudest = decibels.max(axis=(1, 2), keepdims=True)
    coefficients = dct(np.maximum(decibels, loudest - RANGE), type=2, norm="ortho")
    return np.asarray(coefficients[:, :FRAMES, :COEFFICIENTS], np.float64)


@cache
def window() -> Floats:
    """A periodic Hann window in the middle of a frame."""
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    margin = (FFT - WINDOW) // 2
    return np.pad(hann, (margin, margin))


@cache
def filters() -> Floats:
    """[bands, frequencies] triangles, evenly spaced on the mel scale, each of unit area."""
    edges = hertz(np.linspace(mel(LOWEST), mel(HIGHEST), BANDS + 2))
    low, peak, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    frequency = np.linspace(0, RATE / 2, FFT // 2 + 1)
    rising, falling = (frequency - low) / (peak - low), (high - frequency) / (high - peak)
    return np.asarray(np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low))


# Slaney's scale: 3 mel to 200 Hz up to 1000 Hz, then 27 mel to a factor of 6.4.
KNEE, STEP = 15.0, np.log(6.4) / 27


def mel(frequency: float) -> float:
    """Hertz to mel."""
    return frequency * 3 / 200 if frequency < 1000 else KNEE + float(np.log(frequency / 1000)) / STEP


def hertz(mels: Floats) -> Floats:
    """Mel to hertz."""
    return np.where(mels < KNEE, mels * 200 / 3, 1000 * np.exp(STEP * (mels - KNEE)))
