"""Flower's apps without Flower's processes: a post that calls the ClientApp with real messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import torch
from flwr.app import Context, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity
from references import world

from fedskew.config import Config, parse
from fedskew.data.federation import Federation
from fedskew.flower import link
from fedskew.flower.client import handler
from fedskew.flower.parcel import Delivery, Parcel

# What Flower's processes set before they call an app.
TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

NODES = {101: 0, 77: 1, 300: 2, 12: 3}  # Flower's random numbers -> ours


def config(method: str, **settings: object) -> Config:
    """The tiny setting with one method."""
    table = {
        "method": {"preset": method},
        "split": {"scheme": "labels", "clients": 8, "per_client": 2},
        "model": {"name": "mlp", "hidden": [6]},
        "train": {"rounds": 3, "participation": 0.5, "epochs": 2, "batch": 5, "lr": 0.1, "momentum": 0.9},
        "evaluate": {"personal": 0},
        "engine": {"backend": "autograd"},
        "flower": {"timeout": 5.0, "resend": 1.0},
        "seeds": [world.SEED],
    }
    return parse(table, "the test").changed(settings)


def load(config: Config, client: int | None) -> Federation:
    """Everybody's examples, at every node."""
    return world.federation()


class DirectPost:
    """Hands each message to the ClientApp at once; subclasses lose, delay and spoil."""

    def __init__(self, config: Config, folder: Path, load: Callable[..., Federation] = load) -> None:
        self.folder, self.config = folder, folder / "experiment.toml"
        self.config.write_text(config.toml())
        self.app = link.client_app(handler(self.config, load))
        self.replies: dict[str, Message] = {}
        self.sent: list[tuple[int, str]] = []

    def nodes(self) -> Collection[int]:
        return set(NODES)

    def send(self, node: int, kind: str, parcel: Parcel, seconds: float) -> str:
        letter = f"letter {len(self.sent)}"
        self.sent.append((node, kind))
        message = arrived(Message(link.to_records(parcel), dst_node_id=node, message_type=kind, ttl=seconds))
        self.replies[letter] = self.app(message, self.context(node))
        return letter

    def collect(self, letters: Collection[str]) -> Sequence[Delivery]:
        found = [letter for letter in letters if letter in self.replies]
        return [link.delivery(self.replies.pop(letter))._replace(letter=letter) for letter in found]

    def context(self, node: int) -> Context:
        settings = {"partition-id": NODES[node], "num-partitions": len(NODES), "state-dir": str(self.folder)}
        return Context(1, node, settings, RecordDict(), {"threads": torch.get_num_threads()})


def arrived(message: Message) -> Message:
    """A message as it is after the way through Flower's own serialisation."""
    contents = {name: thing.deflate() for name, thing in get_all_nested_objects(message).items()}
    return inflate_object_from_contents(message.object_id, contents)
