"""States as bytes."""

import json
import math
from pathlib import Path

import pytest
import torch

from fedskew.errors import DiskError
from fedskew.store import codec
from fedskew.tree import State


def everything() -> State:
    odd = torch.tensor([-0.0, math.nan, math.inf, 5e-324], dtype=torch.float64)
    return {
        "zeta": {"w": torch.randn(3, 4).T, "b/c": torch.tensor(2.5), "": torch.zeros(0, 7)},
        "empty": {},
        "alpha": {
            "f": odd,
            "i": torch.tensor(2**62),
            "m": torch.tensor([True, False]),
            "ключ\n": torch.ones(1),
        },
    }


def test_a_state_comes_back_bit_for_bit_and_in_order() -> None:
    state = everything()
    back = codec.decode(codec.encode(state), Path("x"))
    assert [(part, list(tree)) for part, tree in back.items()] == [
        (p, list(tree)) for p, tree in state.items()
    ]
    for part, tree in state.items():
        for name, value in tree.items():
            got = back[part][name]
            assert (got.dtype, got.shape) == (value.dtype, value.shape)
            assert got.numpy().tobytes() == value.contiguous().numpy().tobytes()


def test_a_state_has_one_sequence_of_bytes_and_takes_shared_memory() -> None:
    state = everything()
    assert len({codec.encode(state) for _ in range(20)}) == 1
    assert codec.encode(state) != codec.encode(dict(reversed(state.items())))
    block = torch.randn(4, 6)
    views: State = {"a": {"x": block[1], "y": block[:, 2], "z": block[1]}}
    back = codec.decode(codec.encode(views), Path("x"))["a"]
    assert all(torch.equal(back[name], value) for name, value in views["a"].items())
    back["x"].add_(1)  # what is read is nobody else's memory
    assert torch.equal(back["z"], block[1])


def test_nothing_and_empty_states_are_told_apart() -> None:
    for state in ({}, {"a": {}}, {"a": {}, "b": {}}):
        assert codec.decode(codec.encode(state), Path("x")) == state


@pytest.mark.parametrize(
    ("state", "words"),
    [({"a/b": {}}, "slash"), ({"a": {"w": torch.ones(1, dtype=torch.complex64)}}, "complex64 is not stored")],
)
def test_a_state_that_cannot_be_told_apart_is_refused(state: State, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        codec.encode(state)


def crafted(header: object, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        crafted([]),
        crafted({}),
        crafted({"__metadata__": {"order": '[["a", ["w"]]]'}}),
        crafted(
            {"__metadata__": {"order": "[]"}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
            b"1234",
        ),
        crafted(
            {
                "__metadata__": {"order": '[["a",["w"]]]'},
                "a/w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]},
            },
            b"1234",
        ),
        crafted(
            {
                "__metadata__": {"order": '[["a",["w"]]]'},
                "a/w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
            },
            b"1234",
        ),
    ],
)
def test_a_file_that_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(DiskError, match=r"evil.*is no state of a run"):
        codec.decode(data, Path("evil"))
