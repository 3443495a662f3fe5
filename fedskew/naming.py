"""What clients are called: by the names of owners where each client is one, else by numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from fedskew.errors import ConfigError

if TYPE_CHECKING:
    from fedskew.data.dataset import Dataset
    from fedskew.data.partition import Partition
    from fedskew.store.reader import RunReader

CENSUS = "census.json"
LISTED = 10  # names in an error


def names(data: Dataset, partition: Partition) -> tuple[str, ...]:
    """The name of every client if each has the examples of one owner of its own; nothing otherwise."""
    import numpy as np  # only here: a list of runs must not wait for it

    if data.owners is None or not data.clients:
        return ()
    # What everybody was given (data sharing) says nothing of whose client it is.
    once = np.bincount(np.concatenate(partition.train), minlength=len(data.owners)) == 1
    pairs = zip(partition.train, partition.test, strict=True)
    held = [set(data.owners[np.append(train[once[train]], test)].tolist()) for train, test in pairs]
    owners = [owner for found in held for owner in found]
    if any(len(found) != 1 for found in held) or len(set(owners)) < len(owners):
        return ()
    return tuple(data.clients[owner] for owner in owners)


def recorded(reader: RunReader) -> tuple[str, ...]:
    """The names that a run wrote down; none in a run of before it did."""
    try:
        found = json.loads(reader.file(CENSUS))
    except KeyError:
        return ()
    return tuple(map(str, found.get("clients", ())))


def label(names: Sequence[str], client: int) -> str:
    """What people call a client: its name, or its number where it has none."""
    return printable(names[client] if 0 <= client < len(names) else "") or str(client)


def printable(name: str) -> str:
    """A name with what would steer a terminal spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def find(names: Sequence[str], clients: int, said: int | str) -> int:
    """The number of the client that a person means; a text is a name first, and a number if nobody has it."""
    numbers = [str(client) for client in range(clients)]
    known = [label(names, client) for client in range(clients)]
    for row in (known, numbers) if isinstance(said, str) else (numbers,):
        if str(said) in row:
            return row.index(str(said))
    wrong = printable(str(said))
    near = get_close_matches(wrong, known, n=1) if names else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    more = f" and {clients - LISTED} more" if clients > LISTED else ""
    called = f"are called {', '.join(known[:LISTED])}{more}, and " if names else ""
    raise ConfigError(f"there is no client {wrong!r}.{hint} They {called}are numbered 0 to {clients - 1}.")
