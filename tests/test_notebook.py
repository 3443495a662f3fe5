"""What notebooks show of partitions and federations."""

from html.parser import HTMLParser

import numpy as np

from fedskew import Experiment, Labels
from fedskew.data import markup
from fedskew.data.partition import Partition


class Cells(HTMLParser):
    """The texts of a table's cells, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if title := dict(attrs).get("title"):
            self.rows[-1][-1] += title

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_a_partition_shows_its_sizes() -> None:
    parts = tuple(np.arange(n) for n in (3, 5))
    shown = Cells(Partition(parts, parts, novel=(1,))._repr_html_())
    assert shown.rows[1:] == [["0", "3", "3"], ["1 (never trains)", "5", "5"]]
    assert not shown.open


def test_a_federation_shows_who_holds_what() -> None:
    plan = Experiment(data="digits", split=Labels(clients=10, per_client=2))
    federation = plan.federation(plan.dataset(), seed=0)
    shown = Cells(federation._repr_html_())
    assert shown.rows[0] == ["client", *map(str, range(10)), "examples"]
    wanted = [[f"{int(n)} examples" for n in row] for row in federation.counts]
    assert [row[1:-1] for row in shown.rows[1:]] == wanted
    assert not shown.open


def test_names_of_classes_are_escaped_and_long_tables_are_cut() -> None:
    counts = np.ones((markup.SHOWN + 5, 2), dtype=np.int64)
    text = markup.holdings(counts, ["<b>", "b"], ())
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    assert text.count("<tr>") == markup.SHOWN + 1
    assert "5 more clients" in text
