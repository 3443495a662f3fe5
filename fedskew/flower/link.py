"""The only module that knows Flower: parcels as records, a grid as a post, and the two apps."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedskew.config import load as load_config
from fedskew.errors import ConfigError
from fedskew.flower.asking import Delivery
from fedskew.flower.client import Node
from fedskew.flower.parcel import Kind, Parcel, UnusableError, pack_answer, unpack_order
from fedskew.flower.serve import serve
from fedskew.flower.site import Load
from fedskew.store.codec import DTYPES
from fedskew.tree import State, Tree

LETTER = "fedskew"  # the record with the text of a parcel and the order of its entries


def to_records(parcel: Parcel) -> RecordDict:
    """A parcel as one record of arrays per part."""
    order = json.dumps([[part, list(tree)] for part, tree in parcel.state.items()])
    records: dict[str, ArrayRecord | ConfigRecord] = {
        f"part {part}": ArrayRecord({name: _array(value) for name, value in tree.items()})
        for part, tree in parcel.state.items()
    }
    return RecordDict({LETTER: ConfigRecord({"order": order, "note": parcel.note}), **records})


def from_records(records: RecordDict) -> Parcel:
    """What `to_records` made; whoever sent it, nothing but arrays of known types comes out."""
    try:
        letter = records.config_records[LETTER]
        order = json.loads(str(letter["order"]))
        state: State = {
            str(part): _tree(records.array_records[f"part {part}"], names) for part, names in order
        }
        return Parcel(state, str(letter["note"]))
    except (KeyError, ValueError, TypeError, RecursionError, OSError, EOFError) as error:
        raise UnusableError(f"the message cannot be read ({type(error).__name__}: {error})") from error


def _array(value: torch.Tensor) -> Array:
    return Array(value.detach().cpu().contiguous().numpy())


def _tree(record: ArrayRecord, names: Sequence[str]) -> Tree:
    tree = {str(name): torch.from_numpy(record[str(name)].numpy().copy()) for name in names}
    if strange := {value.dtype for value in tree.values()} - DTYPES:
        raise ValueError(f"{strange.pop()} is no type of an entry")
    return tree


class GridPost:
    """Flower's grid as a post."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def nodes(self) -> Collection[int]:
        """The SuperNodes that are connected."""
        return list(self.grid.get_node_ids())

    def send(self, node: int, kind: str, parcel: Parcel, seconds: float) -> str:
        """Pushes a message; its identifier is the letter's number."""
        message = Message(to_records(parcel), dst_node_id=node, message_type=kind, ttl=seconds)
        return next(iter(self.grid.push_messages([message])), "") or ""

    def collect(self, letters: Collection[str]) -> Sequence[Delivery]:
        """Pulls the replies that are there."""
        return [_delivery(message) for message in self.grid.pull_messages(list(letters))]


def _delivery(message: Message) -> Delivery:
    letter = message.metadata.reply_to_message_id
    if message.has_error():
        return Delivery(letter, None, str(message.error.reason))
    try:
        return Delivery(letter, from_records(message.content))
    except UnusableError as error:
        return Delivery(letter, None, str(error))


def client_app(config: Path, load: Load) -> ClientApp:
    """The app of a client: `config` is the experiment, `load` gives the examples that lie here."""
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        torch.set_num_threads(int(context.run_config.get("threads", 1)))
        order = unpack_order(from_records(message.content))
        kind: Kind = "train" if message.metadata.message_type == "train" else "evaluate"
        answer = node(config, load, context).answer(order._replace(kind=kind))
        return Message(to_records(pack_answer(answer)), reply_to=message)

    app.train()(handle)
    app.evaluate()(handle)
    return app


def node(config: Path, load: Load, context: Context) -> Node:
    """The node that a SuperNode's configuration describes."""
    said = context.node_config
    missing = [key for key in ("partition-id", "num-partitions", "state-dir") if key not in said]
    if missing:
        raise ConfigError(
            f"the SuperNode was started without {missing[0]}: give it --node-config "
            "'partition-id=0 num-partitions=4 state-dir=\"/var/lib/fedskew\"'."
        )
    folder = Path(str(said["state-dir"])).expanduser()
    return Node(load_config(config), load, int(said["partition-id"]), int(said["num-partitions"]), folder)


def server_app(config: Path, load: Load) -> ServerApp:
    """The app of the server; its run configuration says where the run is kept."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        told = logging.getLogger("fedskew")
        told.handlers, told.level = logging.getLogger("flwr").handlers, logging.INFO
        torch.set_num_threads(int(context.run_config.get("threads", 1)))
        place = Path(str(context.run_config["run-dir"])).expanduser()
        resume = bool(context.run_config.get("resume", False))
        serve(load_config(config), place, load, GridPost(grid), resume)

    return app
