"""The native kernels as a library: compiled on first use with the system's compiler and cached."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from fedskew.data.folder import user_cache
from fedskew.kernels.backend import Backend

_SOURCE = Path(__file__).with_name("native.cpp")
_INCLUDED = tuple(_SOURCE.with_name(name) for name in ("products.h", "points.h", "winograd.h", "norm.h"))
_COMMON = ("-std=c++17", "-O3", "-ffp-contract=fast", "-fPIC", "-shared")
# What torch says the processor can do -> how the kernels are compiled; anything else runs everywhere.
_FLAGS = {
    "AVX512": ("-mavx512f", "-mavx512vl", "-mavx512dq", "-mfma", "-DVECTOR_BYTES=64"),
    "AVX2": ("-mavx2", "-mfma", "-DVECTOR_BYTES=32"),
}

_TYPES: dict[str, Any] = {"i": ctypes.c_int64, "p": ctypes.c_void_p, "d": ctypes.c_double}


class UnavailableError(Exception):
    """Why there are no native kernels here."""


@cache
def library(capability: str | None = None) -> ctypes.CDLL:
    """The kernels for this processor, or for the capability named."""
    compiler, flags, path = _recipe(capability)
    if not path.exists():
        _compile(compiler, flags, path)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise UnavailableError(f"the compiled kernels cannot be loaded: {error}") from error


def entry(library: ctypes.CDLL, name: str, takes: str, gives: str = "") -> Callable[..., Any]:
    """A function of the library; `takes` and `gives` spell its types: i(nteger), p(ointer), d(ouble)."""
    function = library[name]
    function.argtypes = [_TYPES[letter] for letter in takes]
    function.restype = _TYPES[gives] if gives else None
    return function


def ready() -> bool:
    """Whether the native kernels have been compiled already."""
    try:
        return _recipe(None)[2].exists()
    except UnavailableError:
        return False


def prepare(backend: Backend) -> bool:
    """Compiles and loads what the backend needs; False where it would run on torch's operations instead."""
    if backend == "native":
        try:
            library()
        except UnavailableError:
            return False
    return True


def status() -> str:
    """What `fedskew doctor` says about the native kernels."""
    try:
        library()
    except UnavailableError as reason:
        return f"not available ({reason}); networks run on torch's own operations"
    return f"compiled for {torch.backends.cpu.get_cpu_capability()}"


def _recipe(capability: str | None) -> tuple[str, tuple[str, ...], Path]:
    """Compiler, flags, and where what they make belongs."""
    flags = (*_COMMON, *_FLAGS.get(capability or torch.backends.cpu.get_cpu_capability(), ()))
    compiler = _compiler()
    return compiler, flags, _folder() / f"native-{_key(compiler, flags)}.so"


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise UnavailableError("no C++ compiler: install g++ or clang++, or set CXX")


def _key(compiler: str, flags: tuple[str, ...]) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    sources = (path.read_bytes() for path in (_SOURCE, *_INCLUDED))
    parts = (*sources, compiler.encode(), version, " ".join(flags).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _folder() -> Path:
    folder = user_cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else _private()
    except OSError:
        return _private()


@cache
def _private() -> Path:
    # Never a shared folder under a name others can guess: what lies there is run.
    return Path(tempfile.mkdtemp(prefix="fedskew-kernels-"))


def _compile(compiler: str, flags: tuple[str, ...], path: Path) -> None:
    handle, made = tempfile.mkstemp(suffix=".so", dir=path.parent)
    os.close(handle)
    command = [compiler, *flags, str(_SOURCE), "-o", made]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        Path(made).unlink()
        first = next(iter(done.stderr.splitlines()), "no message")
        raise UnavailableError(f"{compiler} failed: {first}")
    os.replace(made, path)  # two processes may build at once; both make the same file
