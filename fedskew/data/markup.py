"""Who owns what as HTML for notebooks: plain tables, every text escaped."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

SHOWN = 60  # clients
DOT = (
    "<span style='display:inline-block;border-radius:50%;background:#0072B2;width:{0}px;height:{0}px'></span>"
)


def sizes(many: Sequence[tuple[int, int]], novel: Collection[int]) -> str:
    """(training, test) examples of every client."""
    rows = [(_name(k, novel), str(train), str(test)) for k, (train, test) in enumerate(many[:SHOWN])]
    return _table(("client", "training examples", "test examples"), rows, len(many))


def holdings(counts: NDArray[np.int64], classes: Sequence[str], novel: Collection[int]) -> str:
    """Client by class: the area of a dot is the number of training examples, which the cursor tells."""
    most = max(1, int(counts.max()))
    rows = [
        (_name(k, novel), *(_dot(int(count), most) for count in row), str(int(row.sum())))
        for k, row in enumerate(counts[:SHOWN])
    ]
    return _table(("client", *classes, "examples"), rows, len(counts))


def _name(client: int, novel: Collection[int]) -> str:
    return f"{client} (never trains)" if client in novel else str(client)


def _dot(count: int, most: int) -> str:
    dot = DOT.format(round(4 + 14 * (count / most) ** 0.5)) if count else ""
    return f"<span title='{count} examples'>{dot}</span>"


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], clients: int) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    more = f"<p>and {clients - SHOWN} more clients</p>" if clients > SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
