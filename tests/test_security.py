"""What files and names of strangers can do: nothing. What SECURITY.md promises is tested here or where it says."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from urllib.parse import quote

import pytest
import torch
from command import fedskew
from markupsafe import escape
from report_runs import make, settings
from store_run import begin
from victims import small

from fedskew import runs, use
from fedskew.config import Config, parse
from fedskew.errors import ConfigError, DiskError
from fedskew.report.page import write
from fedskew.report.watch import Watch
from fedskew.store import codec
from fedskew.store.run import RunStore
from fedskew.tree import State

EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "javascript:alert(1)//'",
)


def harmless(place: Path, folder: Path) -> tuple[str, str]:
    """The page of a run as a file and as it is served, in which no name has become markup."""
    write([place], folder / "page.html")
    watch = Watch(folder / "runs")
    report = json.loads(watch.answer(f"/{watch.token}/report.json?run={quote('fedavg/0')}").content)
    pages = (folder / "page.html").read_text(), report["html"]
    for html in pages:
        assert "<script>alert(1)" not in html
        assert "<img src=x" not in html
    return pages


@pytest.mark.parametrize("name", EVIL)
def test_a_class_may_be_called_anything(name: str, tmp_path: Path) -> None:
    place = make(tmp_path / "runs", settings("fedavg"), classes=(name, "b", "c"))
    _, live = harmless(place, tmp_path)
    assert "7 * 7" in live or "{{" not in name, "a name is text, not a template"


@pytest.mark.parametrize("name", EVIL)
def test_a_client_may_be_called_anything(name: str, tmp_path: Path) -> None:
    names = (name, *(f"{name} {k}" for k in range(1, 6)))
    place = make(tmp_path / "runs", settings("fedavg"), names=names, events=[("refused", {"client": 0})])
    for html in harmless(place, tmp_path):
        assert html.count(str(escape(name))) >= 12, "in both tables, as text"


def test_names_in_the_page_are_the_names_in_the_data(tmp_path: Path) -> None:
    """So that the test above does not pass because nothing was shown."""
    make(tmp_path / "runs", settings("fedavg"), classes=(EVIL[0], "b", "c"))
    watch = Watch(tmp_path / "runs")
    report = json.loads(watch.answer(f"/{watch.token}/report.json?run=fedavg/0").content)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in report["html"]


@pytest.mark.parametrize(
    "name", ["../out", "a/b", "/abs", "..", ".", "", "a\n", "a\x00", "-x", "~", "C:x", "ä"]
)
def test_the_name_of_a_run_stays_in_its_folder(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        parse({"name": name}, "test")
    with pytest.raises(ConfigError, match="name"):
        Config().changed({"name": name})


def test_nor_can_a_comparison_lead_out(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(small("fedavg").toml())
    for over in ("split.scheme=../../x", "name=../x"):
        words = (
            "compare",
            str(config),
            "--methods",
            "fedavg",
            "--over",
            over,
            "--out",
            str(tmp_path / "runs"),
        )
        assert fedskew(*words).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def header(size: int, shape: list[int], name: str = "shared/w") -> bytes:
    """A safetensors file whose header promises a tensor of so many bytes, and that has 16."""
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
    order = {"order": json.dumps([["shared", ["w"]]])}
    text = json.dumps({"__metadata__": order, name: entry}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(16)


@pytest.mark.parametrize(
    "data",
    [
        header(1 << 40, [1 << 38]),
        header(16, [1 << 38]),
        header(16, [1 << 62, 1 << 62]),
        header(16, [4], "shared/other"),
        header(16, [4], "stranger"),
        struct.pack("<Q", 1 << 60) + b"{}",
        b"\x80\x04\x95" + bytes(30),  # a pickle
    ],
)
def test_a_model_file_that_promises_more_than_it_holds_takes_no_memory(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="is no state of a run"):
        codec.decode(data, tmp_path / "x.safetensors")


def forged(place: Path, shared: dict[str, torch.Tensor] | None) -> None:
    """A checkpoint in which every hash is right and the network is not."""
    state: State = {} if shared is None else {"shared": shared}
    with RunStore.open(place) as store:
        store.save(0, state, {})


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: None,
        lambda tree: {},
        lambda tree: {**tree, "stranger": torch.zeros(1)},
        lambda tree: dict(list(tree.items())[1:]),
        lambda tree: {name: value[:1] for name, value in tree.items()},  # would broadcast
        lambda tree: {name: value.double() for name, value in tree.items()},
    ],
)
def test_a_checkpoint_of_another_network_is_refused(change: object, tmp_path: Path) -> None:
    place = runs.begin(small("fedavg"), 0, tmp_path)
    config = parse(small("fedavg").model_dump(), "test")
    tree = runs.session(config, place).feed.algorithm.init()["shared"]
    forged(place, change(tree))  # type: ignore[operator]
    with pytest.raises(DiskError, match="of another network"):
        runs.carry_on(place)
    with pytest.raises(DiskError, match="of another network"):
        use.take(place)
    done = fedskew("resume", str(place))
    assert done.code == 5
    assert "Traceback" not in done.err


def test_a_state_may_not_be_named_out_of_its_folder(tmp_path: Path) -> None:
    with begin(tmp_path / "run") as store:
        with pytest.raises(ValueError, match="no slash"):
            store.save(0, {"../../x": {"w": torch.zeros(1)}}, {})
        store.save(0, {"shared": {"../../x": torch.zeros(1)}}, {})  # an entry is no file
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
