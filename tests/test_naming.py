"""What clients are called: their owners' names, wherever a person meets them."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import works

from fedskew import bubbles, naming, runs
from fedskew.data.arrays import from_arrays
from fedskew.data.dataset import Dataset
from fedskew.data.federation import Federation, centralised, with_shared_data
from fedskew.data.partition import IID, Natural, Partition, Scheme, hold_out, split
from fedskew.errors import ConfigError

OWNERS = np.array(["north"] * 30 + ["east"] * 3 + ["south"] * 20 + ["only tested"] * 2)
EVIL = "<b>\x1b[31mred\u202e</b>"


def pool(owners: np.ndarray = OWNERS) -> Dataset:
    x, test = np.arange(len(owners) * 2.0).reshape(-1, 2), np.arange(len(owners)) % 10 == 0
    return from_arrays(x, np.arange(len(owners)) % 2, owners, test | (owners == "only tested"))


def dealt(data: Dataset, scheme: Scheme) -> Partition:
    return split(scheme, data.y.numpy(), data.train, data.test, 0, data.owners)


def test_names_follow_the_clients_that_are_left() -> None:
    data = pool()
    assert data.clients == ("east", "north", "only tested", "south")
    assert naming.names(data, dealt(data, Natural())) == ("east", "north", "south")
    kept = hold_out(dealt(data, Natural(minimum=4)), 0.5, 0)
    assert naming.names(data, kept) == ("north", "south")
    assert [set(OWNERS[part]) for part in kept.train] == [{"north"}, {"south"}]


def test_shared_examples_do_not_hide_the_owner() -> None:
    data = pool()
    federation = Federation(data, dealt(data, Natural(minimum=4)))
    shared = with_shared_data(federation, 0.2, 0)
    assert len(shared.partition.train[0]) > len(federation.partition.train[0])
    assert naming.names(data, shared.partition) == ("north", "south")
    assert json.loads(runs.census(shared))["clients"] == ["north", "south"]


def test_clients_that_are_no_owners_have_numbers() -> None:
    data = pool()
    assert naming.names(data, dealt(data, IID(clients=3))) == ()
    assert naming.names(data, centralised(Federation(data, dealt(data, Natural()))).partition) == ()
    halves = [Partition((part[:5], part[5:]), (part[:0],) * 2) for part in dealt(data, Natural()).train[1:]]
    assert [naming.names(data, two) for two in halves] == [(), ()]
    nameless = data._replace(clients=())
    assert naming.names(nameless, dealt(data, Natural())) == ()
    assert [naming.label((), k) for k in range(2)] == ["0", "1"]


def test_a_name_is_tried_before_a_number() -> None:
    names = ("2", "10", "ward 1")
    assert [naming.find(names, 3, said) for said in ("2", "10", "ward 1", "1")] == [0, 1, 2, 1]
    assert [naming.find(names, 3, number) for number in (0, 1, 2)] == [0, 1, 2]
    with pytest.raises(
        ConfigError, match=r"Did you mean 'ward 1'\? They are called 2, 10, ward 1, and are num"
    ):
        naming.find(names, 3, "ward 2")
    for strange in (3, -1, "3", "-1", "", "1.0", "9" * 5000):
        with pytest.raises(ConfigError, match="numbered 0 to 2"):
            naming.find((), 3, strange)
    many = tuple(f"h{k}" for k in range(1000))
    with pytest.raises(ConfigError) as caught:
        naming.find(many, 1000, "x")
    assert "h9 and 990 more" in str(caught.value)


def test_a_terminal_gets_nothing_that_steers_it() -> None:
    assert naming.label((EVIL, ""), 0) == r"<b>\x1b[31mred\u202e</b>"
    assert [naming.label((EVIL, ""), k) for k in (1, 2, -7)] == ["1", "2", "-7"]
    data = pool(np.array([EVIL] * 20 + ["long " * 20] * 20))._replace(classes=("\x1b", "b"))
    lines = bubbles.lines(dealt(data, Natural()), data)
    assert all(line.isprintable() for line in lines)
    assert lines[1].split("  ")[0] == r"<b>\x1b[31mred\u202e</b>"
    assert max(map(len, lines[:3])) < 60
    with pytest.raises(ConfigError) as caught:
        naming.find((EVIL,), 1, "\x1b[0m")
    assert str(caught.value).isprintable()


def test_the_picture_takes_names_as_text(tmp_path: Path) -> None:
    data = pool(np.array(["<script>alert(1)</script>"] * 20 + ["<a href='x'>b</a>"] * 20))
    bubbles.picture(dealt(data, Natural()), data, tmp_path / "p.html")
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in html
    assert r"\u003ca href" not in html, "plotly.js would make a link of it"
    assert r"\u0026lt;script\u0026gt;alert(1)" in html or "&lt;script&gt;alert(1)" in html


def test_partition_shows_names_also_of_a_saved_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = [f"{k % 7},{k * k % 11},{('yes', 'no')[k % 2]},{('Riga', 'Oslo')[k // 2 % 2]}" for k in range(80)]
    Path("t.csv").write_text("\n".join(["a,b,kind,city", *rows]), encoding="utf-8")
    Path("c.toml").write_text(
        '[data]\nname = "csv"\npath = "t.csv"\nlabel = "kind"\nclient = "city"\n[split]\nscheme = "natural"\n',
        encoding="utf-8",
    )
    said = works("partition", "c.toml", "--save", "split.json")
    assert [line.split()[0] for line in said.splitlines()[1:3]] == ["Oslo", "Riga"]
    again = works("partition", "c.toml", "-s", "split.file=split.json")
    assert again.splitlines()[:3] == said.splitlines()[:3]
