"""The content-named files of a checkpoint: what is written before a manifest, what is removed after it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fedskew.store import codec, durable, layout
from fedskew.store.records import Ref, encode_index
from fedskew.store.stored import Stored, index_name, state_name
from fedskew.tree import State


def put_states(
    folder: Path, latest: Stored | None, server: State, changed: Mapping[int, State]
) -> tuple[Ref, Ref, dict[int, Ref]]:
    """Writes what the latest checkpoint does not hold; returns the server, the index and its content."""
    known = set() if latest is None else latest.names()
    clients = {} if latest is None else dict(latest.clients)
    refs: list[Ref] = []

    def unless_known(data: bytes, name: Callable[[Ref], str]) -> Iterator[tuple[str, bytes]]:
        refs.append(Ref.of(data))
        if name(refs[-1]) not in known:
            known.add(name(refs[-1]))
            yield name(refs[-1]), data

    def files() -> Iterator[tuple[str, bytes]]:
        yield from unless_known(codec.encode(server), state_name)
        for client, state in changed.items():
            yield from unless_known(codec.encode(state), state_name)
            clients[client] = refs[-1]
        yield from unless_known(encode_index(clients), index_name)

    durable.put_all(folder / layout.STATES, files())
    return refs[0], refs[-1], clients


def sweep(folder: Path, *checkpoints: Stored | None) -> None:
    """Removes every manifest and state that none of these checkpoints needs."""
    needed: set[str] = set()
    for held in checkpoints:
        if held is not None:
            needed |= held.names() | {layout.manifest(held.manifest.round)}
    for inner in (folder / layout.CHECKPOINTS, folder / layout.STATES):
        with durable.explained(inner, "read"):
            names = [entry.name for entry in inner.iterdir()]
        durable.remove_all(inner / name for name in names if name not in needed)
