"""A trained model as a file that needs nothing of this library: weights, a program, or a model card."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from fedskew.card import text
from fedskew.errors import ConfigError, unknown
from fedskew.files import written
from fedskew.use import Taken


def export(taken: Taken, to: str, path: Path) -> None:
    """Writes the model in the format named, whole or not at all."""
    if to not in FORMATS:
        raise ConfigError(unknown("format", to, FORMATS))
    written(path, lambda part: FORMATS[to](taken, part))


def about(taken: Taken) -> dict[str, object]:
    """What the file of weights says of itself."""
    return {
        "model": taken.config.model.name,
        "model_options": taken.config.model.options,
        "method": taken.config.method.preset,
        "who": taken.who,
        "rounds": taken.round + 1,
        "shape": list(taken.shape),
        "inputs": list(taken.inputs),
        "classes": list(taken.classes),
        "mean": taken.scale.mean if taken.scale else None,
        "std": taken.scale.std if taken.scale else None,
    }


def safetensors(taken: Taken, path: Path) -> None:
    """The network's weights under torch's own names; what they belong to is in the metadata, as JSON."""
    weights = {name: value.contiguous() for name, value in taken.network.state_dict().items()}
    path.write_bytes(save(weights, {"format": "pt", "fedskew": json.dumps(about(taken))}))


def torchscript(taken: Taken, path: Path) -> None:
    """A program for torch.jit.load: raw inputs [N, ...] to scores [N, C]."""
    made = io.BytesIO()  # of a file that cannot be opened torch says what nobody understands
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch would rather have torch.export
        traced = torch.jit.trace(taken.module, _example(taken))  # type: ignore[no-untyped-call]
        torch.jit.save(traced, made)
    path.write_bytes(made.getvalue())


def onnx(taken: Taken, path: Path) -> None:
    """A graph for any ONNX runtime: `x` [N, ...] to `scores` [N, C]."""
    for package in ("onnx", "onnxscript"):
        try:
            import_module(package)
        except ImportError as error:
            raise ConfigError(
                f"ONNX files are written by the package {package}: pip install 'fedskew[export]'."
            ) from error
    with _quiet():
        program = torch.onnx.export(
            taken.module,
            (_example(taken),),
            input_names=["x"],
            output_names=["scores"],
            dynamic_shapes=({0: torch.export.Dim("examples")},),
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise ConfigError("torch made no ONNX program of this network; export it to torchscript.")
    model = program.model_proto
    import_module("onnx.helper").set_model_props(model, {"fedskew": json.dumps(about(taken))})
    path.write_bytes(model.SerializeToString())


def model_card(taken: Taken, path: Path) -> None:
    """What the model is, what it was trained on and how well it does, in Markdown."""
    path.write_text(text(taken), encoding="utf-8")


FORMATS: dict[str, Callable[[Taken, Path], None]] = {
    "safetensors": safetensors,
    "torchscript": torchscript,
    "onnx": onnx,
    "model-card": model_card,
}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter warns of, which is itself."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _example(taken: Taken) -> Tensor:
    dtype = torch.float32 if taken.scale else getattr(torch, taken.config.dtype)
    return torch.zeros(2, *taken.shape, dtype=dtype)
