"""The only module that knows Flower: parcels as records, a grid as a post, and the two apps."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import httpx
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedskew.flower.parcel import Arrays, Delivery, Handler, Parcel, Post, Settings, UnusableError

LETTER = "fedskew"  # the record with the text of a parcel and the order of its entries
T = TypeVar("T")
log = logging.getLogger("fedskew")


def to_records(parcel: Parcel) -> RecordDict:
    """A parcel as one record of arrays per part."""
    order = json.dumps([[part, list(entries)] for part, entries in parcel.arrays.items()])
    records: dict[str, ArrayRecord | ConfigRecord] = {
        f"part {part}": ArrayRecord({name: Array(array) for name, array in entries.items()})
        for part, entries in parcel.arrays.items()
    }
    return RecordDict({LETTER: ConfigRecord({"order": order, "note": parcel.note}), **records})


_UNREADABLE = (
    *(KeyError, ValueError, TypeError, OSError, EOFError),
    *(RecursionError, OverflowError, MemoryError),  # what an array says of its size can be anything
)


def from_records(records: RecordDict) -> Parcel:
    """What `to_records` made; Flower reads arrays without pickle, so nothing else can come out."""
    try:
        letter = records.config_records[LETTER]
        arrays: Arrays = {}
        for part, names in json.loads(str(letter["order"])):
            record = records.array_records[f"part {part}"]
            arrays[str(part)] = {str(name): record[str(name)].numpy() for name in names}
        return Parcel(arrays, str(letter["note"]))
    except _UNREADABLE as error:
        raise UnusableError(f"the message cannot be read ({type(error).__name__}: {error})") from error


class GridPost:
    """Flower's grid as a post; a SuperLink that is too busy to answer is asked again later, not given up."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._known: Sequence[int] = ()

    def nodes(self) -> Collection[int]:
        """The SuperNodes that are connected."""
        self._known = _asked(self.grid.get_node_ids, self._known)
        return self._known

    def send(self, node: int, kind: str, parcel: Parcel, seconds: float) -> str:
        """Pushes a message; its identifier is the letter's number."""
        message = Message(to_records(parcel), dst_node_id=node, message_type=kind, ttl=seconds)
        return next(iter(_asked(lambda: self.grid.push_messages([message]))), "") or ""

    def collect(self, letters: Collection[str]) -> Sequence[Delivery]:
        """Pulls the replies that are there."""
        return [delivery(message) for message in _asked(lambda: self.grid.pull_messages(list(letters)))]


def _asked(question: Callable[[], Iterable[T]], otherwise: Sequence[T] = ()) -> Sequence[T]:
    try:
        return list(question())
    except httpx.HTTPError as error:
        log.warning("the SuperLink has not answered: %s", error)
        return otherwise


def delivery(message: Message) -> Delivery:
    """What a reply holds, or why it cannot be used."""
    letter = message.metadata.reply_to_message_id
    if message.has_error():
        return Delivery(letter, None, str(message.error.reason))
    try:
        return Delivery(letter, from_records(message.content))
    except UnusableError as error:
        return Delivery(letter, None, str(error))


def client_app(handler: Handler) -> ClientApp:
    """The app of a client."""
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        settings = {**context.run_config, **context.node_config}
        return Message(to_records(handler(from_records(message.content), settings)), reply_to=message)

    app.train()(handle)
    app.evaluate()(handle)
    return app


def server_app(main: Callable[[Post, Settings], None]) -> ServerApp:
    """The app of the server."""
    app = ServerApp()

    @app.main()
    def run(grid: Grid, context: Context) -> None:
        told = logging.getLogger("fedskew")
        told.handlers, told.level = logging.getLogger("flwr").handlers, logging.INFO
        main(GridPost(grid), context.run_config)

    return app
