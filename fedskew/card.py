"""A model card: what a model is, whom it was trained by, how well it does; measured numbers only."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape

import numpy as np

from fedskew import __version__, naming, runs
from fedskew.catalogue import METHODS
from fedskew.data.partition.measure import summary
from fedskew.results import HEADLINES, Result
from fedskew.store import layout
from fedskew.store.reader import RunReader
from fedskew.use import Taken


def text(taken: Taken) -> str:
    """The card in Markdown."""
    pieces = [_head(taken), _inputs(taken), _training(taken), _measured(taken), _limits(taken), _again(taken)]
    return "\n".join(line.rstrip() for piece in pieces for line in piece) + "\n"


def _plain(name: str) -> str:
    """A name as it reads, whatever signs of Markdown or HTML are in it."""
    signs = re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(name.split()))
    return escape(signs, quote=False)


def _head(taken: Taken) -> Iterator[str]:
    preset = taken.config.method.preset
    papers = [METHODS[name].paper for name in preset.split("+") if name in METHODS and METHODS[name].paper]
    yield f"# {taken.config.name}: {_plain(taken.who)}"
    yield ""
    yield f"Network `{taken.config.model.name}`, trained with `{preset}` on `{taken.config.data.name}` "
    yield f"for {taken.round + 1} of {taken.config.train.rounds} rounds by fedskew {__version__}."
    if papers:
        yield f"Method: {'; '.join(papers)}."
    yield ""


def _inputs(taken: Taken) -> Iterator[str]:
    yield "## Input and output"
    yield ""
    yield f"- Input: {taken.config.dtype} numbers of shape [N, {', '.join(map(str, taken.shape))}]."
    if taken.inputs:
        yield f"  In this order: {', '.join(map(_plain, taken.inputs))}."
    if taken.scale:
        yield "- TorchScript and ONNX take raw numbers and scale them; the weights in safetensors take "
        yield "  (x - mean) / std by channel, with mean and std from the file's metadata."
    else:
        yield f"- Inputs must look as fedskew's reader of `{taken.config.data.name}` gives them."
    yield f"- Output: a score for each of {len(taken.classes)} classes; the highest one is the answer. "
    yield f"  In this order: {', '.join(map(_plain, taken.classes))}."
    yield ""


def _training(taken: Taken) -> Iterator[str]:
    table = np.array(taken.counts)
    found, sizes = summary(table), table.sum(1)
    yield "## Who trained it"
    yield ""
    yield f"- {len(table)} clients with {sizes.min()} to {sizes.max()} training examples each, "
    yield f"  {sizes.sum()} in all."
    yield f"- Classes per client: {min(found.distinct)} to {max(found.distinct)} of {len(taken.classes)}; "
    yield f"  mean Jensen-Shannon distance from the whole: {found.distance:.2f}."
    if taken.client is not None:
        own = [
            f"{n} of {_plain(c)}" for c, n in zip(taken.classes, taken.counts[taken.client], strict=True) if n
        ]
        yield f"- Client {_plain(naming.label(taken.clients, taken.client))} holds {', '.join(own)}."
    yield ""


def _measured(taken: Taken) -> Iterator[str]:
    result = runs.read(taken.place)
    yield "## What was measured"
    yield ""
    yield "Mean over the last ten rounds in which it was measured, on test examples."
    yield ""
    yield "| metric | per cent |"
    yield "|---|---|"
    for metric, label in HEADLINES.items():
        yield f"| {label} | {_percent(result.mean_last(metric))} |"
    yield ""
    if taken.client is None:
        yield from _per_class(taken, result)


def _per_class(taken: Taken, result: Result) -> Iterator[str]:
    last = next((r["global.per_class"] for r in reversed(result.records) if "global.per_class" in r), None)
    if last is None:
        return
    yield "Accuracy by class, last round:"
    yield ""
    yield "| class | clients that hold it | per cent |"
    yield "|---|---|---|"
    holders = (np.array(taken.counts) > 0).sum(0)
    for name, held, value in zip(taken.classes, holders, last, strict=True):
        yield f"| {_plain(name)} | {held} | {_percent(math.nan if value is None else value)} |"
    yield ""


def _percent(value: float) -> str:
    return "not measured" if math.isnan(value) else f"{100 * value:.1f}"


def _limits(taken: Taken) -> Iterator[str]:
    yield "## Limits"
    yield ""
    if taken.client is None:
        yield "- Classes held by few clients are the ones to distrust; see the table above."
    else:
        missing = [_plain(c) for c, n in zip(taken.classes, taken.counts[taken.client], strict=True) if not n]
        yield "- It is made for one client. The numbers above are over all clients."
        if missing:
            yield f"- The client has never seen {', '.join(missing)}."
    yield "- Scores are no probabilities unless the method trains them to be."
    yield ""


def _again(taken: Taken) -> Iterator[str]:
    reader = RunReader(taken.place)
    yield "## Made again"
    yield ""
    yield "`fedskew run config.toml` with this file gives the same model:"
    yield ""
    yield "```toml"
    yield reader.file(layout.CONFIG).decode().strip()
    yield "```"
