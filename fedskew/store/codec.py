"""A State as the bytes of one safetensors file, always the same bytes for the same state.

A tensor is called `part/name`; a part has no slash in its name, so the first one separates. The order of
parts and entries (sums over a tree depend on it) and parts without entries are in the metadata, under one
single key because safetensors writes several in any order.
"""

import json
from pathlib import Path
from typing import Any

import safetensors.numpy
import safetensors.torch
import torch
from safetensors import SafetensorError

from fedskew.errors import DiskError
from fedskew.tree import State

ORDER = "order"  # JSON: [[part, [name, ...]], ...]
DTYPES = frozenset({torch.float32, torch.float64, torch.int64, torch.bool})
_MALFORMED = (SafetensorError, ValueError, TypeError, KeyError, RecursionError)


def encode(state: State) -> bytes:
    """The file of a state."""
    arrays = {}
    for part, tree in state.items():
        if "/" in part:
            raise ValueError(f"the name of a part has no slash: '{part}'")
        for name, value in tree.items():
            if value.dtype not in DTYPES:
                raise ValueError(f"{part}/{name}: {value.dtype} is not stored in checkpoints")
            arrays[f"{part}/{name}"] = value.detach().cpu().contiguous().numpy()
    order = json.dumps([[part, list(tree)] for part, tree in state.items()])
    return safetensors.numpy.save(arrays, {ORDER: order})


def decode(data: bytes, path: Path) -> State:
    """The state in these bytes; even if their hash was right they are refused when they are no state."""
    try:
        order = _order(data)
        tensors = safetensors.torch.load(data)
        state = {part: {name: tensors.pop(f"{part}/{name}") for name in names} for part, names in order}
        if not tensors and all(value.dtype in DTYPES for tree in state.values() for value in tree.values()):
            return state
    except _MALFORMED as error:
        raise DiskError(f"{path}: is no state of a run ({type(error).__name__}).") from error
    raise DiskError(f"{path}: is no state of a run (it holds tensors that belong to none).")


def _order(data: bytes) -> list[tuple[str, list[str]]]:
    """The metadata, from the header: its length in eight bytes, then JSON."""
    end = 8 + int.from_bytes(data[:8], "little")
    if end > len(data):
        raise ValueError("the header is longer than the file")
    header: Any = json.loads(data[8:end])
    return [
        (str(part), [str(name) for name in names])
        for part, names in json.loads(header["__metadata__"][ORDER])
    ]
