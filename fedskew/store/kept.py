"""What clients remember, read from disk when asked for; in memory is what is not committed, and some beside."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping

from fedskew.store.records import Ref
from fedskew.tree import State

ROOM = 64 << 20  # bytes of committed states that need not be read again


class Kept(MutableMapping[int, State]):
    """Client -> state; hand `changed` to `RunStore.save`, then `settle`."""

    def __init__(
        self, index: Callable[[], Mapping[int, Ref]], read: Callable[[Ref], State], room: int = ROOM
    ) -> None:
        self._index, self._read, self._room = index, read, room
        self.changed: dict[int, State] = {}
        self._recent: dict[int, State] = {}  # the longest settled first
        self._used = 0

    def __getitem__(self, client: int) -> State:
        for held in (self.changed, self._recent):
            if client in held:
                return held[client]
        return self._read(self._index()[client])

    def __setitem__(self, client: int, state: State) -> None:
        self._forget(client)
        self.changed[client] = state

    def __delitem__(self, client: int) -> None:
        raise TypeError("a client's state can be replaced, not removed")

    def __contains__(self, client: object) -> bool:
        return client in self.changed or client in self._index()

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._index().keys() | self.changed.keys()))

    def __len__(self) -> int:
        return len(self._index().keys() | self.changed.keys())

    def settle(self) -> None:
        """Keeps of the changed states, which are on disk now, as many as there is room for."""
        for client, state in self.changed.items():
            self._recent[client] = state
            self._used += size(state)
        self.changed = {}
        while self._used > self._room:
            self._forget(next(iter(self._recent)))

    def _forget(self, client: int) -> None:
        if client in self._recent:
            self._used -= size(self._recent.pop(client))


def size(state: State) -> int:
    """The bytes a state holds on to: a row of a block keeps all of the block."""
    return sum(value.untyped_storage().nbytes() for tree in state.values() for value in tree.values())
