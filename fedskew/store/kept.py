"""What clients remember, read from disk when asked for; in memory is only what is not committed yet."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping

from fedskew.store.records import Ref
from fedskew.tree import State


class Kept(MutableMapping[int, State]):
    """Client -> state; hand `changed` to `RunStore.save`, then `settle`."""

    def __init__(self, index: Callable[[], Mapping[int, Ref]], read: Callable[[Ref], State]) -> None:
        self._index, self._read = index, read
        self.changed: dict[int, State] = {}

    def __getitem__(self, client: int) -> State:
        if client in self.changed:
            return self.changed[client]
        return self._read(self._index()[client])

    def __setitem__(self, client: int, state: State) -> None:
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
        """Forgets the changed states, which are on disk now."""
        self.changed = {}
