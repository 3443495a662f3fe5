"""Flower without its processes: records, messages, memories, and every preset through the ClientApp."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

import httpx
from bad_replies import BAD, CASES
from flower_nodes import NODES, DirectPost, arrived, config, load
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message
from references import world
from references.runs import PRESETS

from fedskew import build, failures, use
from fedskew.config import Config
from fedskew.config import load as load_config
from fedskew.data.federation import Federation
from fedskew.engines.feed import Feed
from fedskew.engines.serial import Serial
from fedskew.errors import ConfigError, DataError, DivergedError
from fedskew.experiment import Session
from fedskew.flower import asking, link, local, memory, serve, site
from fedskew.flower.client import Node, handler
from fedskew.flower.letters import (
    Answer,
    Order,
    pack_answer,
    pack_order,
    pack_reply,
    to_arrays,
    to_state,
    unpack_answer,
    unpack_order,
    unpack_reply,
)
from fedskew.flower.memory import Memory
from fedskew.flower.parcel import Arrays, Delivery, Parcel, UnusableError, from_bytes, to_bytes
from fedskew.flower.remote import NobodyError
from fedskew.store import checkpoint, codec, disk, journal
from fedskew.store.reader import RunReader
from fedskew.tree import State

RUN = "0" * 32


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses, and nothing waits for the disk."""
    monkeypatch.setattr(asking, "POLL", (0.01, 0.01))
    monkeypatch.setattr(disk, "fsync", lambda descriptor: None)
    monkeypatch.setattr(disk, "sync_folder", lambda path: None)


# Records


def test_a_state_survives_flower() -> None:
    state = {
        "shared": {
            "b": torch.randn(3, 2),
            "a": torch.randn(2, dtype=torch.float64),
            "odd": torch.tensor([torch.nan, -0.0, torch.inf, 5e-324], dtype=torch.float64),
            "strided": torch.arange(6.0).reshape(2, 3).T,
        },
        "counts": {"n": torch.tensor(2**62), "rows": torch.tensor([True, False]), "none": torch.zeros(0, 3)},
        "scalar": {"x": torch.tensor(1.5)},
        "nothing": {},
    }
    parcel = Parcel(to_arrays(state), "a note")
    back = link.from_records(
        arrived(Message(link.to_records(parcel), dst_node_id=1, message_type="train")).content
    )
    for found in (back, from_bytes(to_bytes(parcel))):
        assert codec.encode(to_state(found.arrays)) == codec.encode(state)
        assert list(found.arrays["shared"]) == ["b", "a", "odd", "strided"]
        assert found.note == "a note"


def test_no_record_is_pickled() -> None:
    records = link.to_records(Parcel({"shared": {"x": np.zeros(1)}}, ""))
    harm = Array("object", (1,), "numpy.ndarray", _pickled())
    records["part shared"] = ArrayRecord({"x": harm})
    with pytest.raises(UnusableError, match="cannot be read"):
        link.from_records(records)


def _pickled() -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([{"harm": 1}], dtype=object), allow_pickle=True)
    return out.getvalue()


def vast(size: int) -> Array:
    """An array that says it is of this size."""
    honest = Array(np.zeros(2, np.float32))
    return Array(
        honest.dtype, (size,), honest.stype, honest.data.replace(b"(2,), }", f"({size},), }}".encode())
    )


@pytest.mark.parametrize("what", ["letter", "order", "part", "entry", "dtype", "bytes", "vast", "vaster"])
def test_broken_records_are_refused(what: str) -> None:
    records = link.to_records(Parcel({"shared": {"x": np.zeros(2)}}, ""))
    if what == "letter":
        del records[link.LETTER]
    elif what == "order":
        records[link.LETTER] = ConfigRecord({"order": "[[1]", "note": ""})
    elif what == "part":
        del records["part shared"]
    elif what == "entry":
        records["part shared"] = ArrayRecord({})
    elif what == "dtype":
        records["part shared"] = ArrayRecord({"x": Array(np.zeros(2, np.complex64))})
    elif what in ("vast", "vaster"):
        records["part shared"] = ArrayRecord({"x": vast(10**15 if what == "vast" else 10**30)})
    else:
        records["part shared"] = ArrayRecord({"x": Array("float32", (2,), "numpy.ndarray", b"junk")})
    with pytest.raises(UnusableError):
        to_state(link.from_records(records).arrays)


@pytest.mark.parametrize("data", [b"", b"junk", b"\xff" * 20, to_bytes(Parcel({}, "x"))[:-3]])
def test_broken_files_are_refused(data: bytes) -> None:
    with pytest.raises(UnusableError):
        from_bytes(data)


def test_orders_and_answers_survive() -> None:
    order = Order("train", RUN, 3, {4: -1, 0: 2}, {"shared": {"x": torch.ones(1)}})
    assert unpack_order(pack_order(order)) == order
    answer = Answer([0, 4], {4: {"0.shared": {"x": np.ones(1)}}}, {0: "broken"}, [4])
    assert unpack_answer(pack_answer(answer)) == answer


@pytest.mark.parametrize(
    "note",
    [
        *("", "{}", "[]", "[" * 9999, '{"hosts": 1, "states": [], "lost": [], "failed": {}}'),
        '{"hosts": [1e999], "states": [], "lost": [], "failed": {}}',
    ],
)
def test_unreadable_answers_are_refused(note: str) -> None:
    with pytest.raises(UnusableError):
        unpack_answer(Parcel({}, note))
    with pytest.raises(UnusableError):
        unpack_reply({"shared": {}})


# A SuperLink that has no time


class Busy:
    """A grid that fails at first, as a SuperLink does whose database is locked."""

    def __init__(self) -> None:
        self.failures = 0

    def get_node_ids(self) -> list[int]:
        return self._after_failing([7])

    def push_messages(self, messages: list[Message]) -> list[str]:
        return self._after_failing(["letter"])

    def pull_messages(self, letters: list[str]) -> list[Message]:
        return self._after_failing([])

    def _after_failing(self, value: list[object]) -> list[object]:
        self.failures += 1
        if self.failures % 2:
            raise httpx.HTTPStatusError(
                "500", request=httpx.Request("POST", "https://x"), response=httpx.Response(500)
            )
        return value


def test_a_superlink_that_has_no_time_is_asked_again() -> None:
    post = link.GridPost(Busy())
    assert [list(post.nodes()) for _ in range(3)] == [[], [7], [7]]
    assert [post.send(7, "train", Parcel({}, ""), 1.0) for _ in range(2)] == ["letter", ""]
    post.grid.failures = 0
    assert [list(post.collect(["letter"])) for _ in range(2)] == [[], []]


# Every preset


def simulated(settings: Config) -> tuple[State, dict[int, State]]:
    """What the simulator makes of it: the server and what clients remember."""
    experiment, federation = build.experiment(settings), load(settings, None)
    algorithm = experiment.algorithm(federation, settings.seeds[0])
    engine = Serial(algorithm, federation, experiment.training)
    session = Session(experiment, Feed.of(algorithm, federation, experiment.training), engine)
    *_, last = session.rounds()
    return last.round.server, engine.kept


def remembered(folder: Path) -> dict[int, str]:
    """The hash of each client's newest state on disk."""
    newest = {int(path.parent.name): path.name for path in sorted(folder.glob("*/*/round-*.safetensors"))}
    return {client: name.split("-")[2].removesuffix(".safetensors") for client, name in newest.items()}


def hashes(kept: dict[int, State]) -> dict[int, str]:
    return {client: hashlib.sha256(codec.encode(state)).hexdigest() for client, state in kept.items()}


@pytest.mark.parametrize(
    ("wrong", "holds"),
    [
        ({"engine.device": "cuda"}, "deployed clients train on processors"),
        ({"gate.minimum": 5}, "a round asks no more than 4 clients"),
    ],
)
def test_what_cannot_be_deployed_is_refused_at_once(
    wrong: dict[str, object], holds: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=holds):
        serve.begin(config("fedavg", **wrong), tmp_path / "run", load)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", [name.replace("_", "-") for name in PRESETS])
def test_every_preset_equals_the_simulator(method: str, tmp_path: Path) -> None:
    settings = config(method)
    serve.serve(settings, tmp_path / "run", load, DirectPost(settings, tmp_path), resume=False)
    server, kept = simulated(settings)
    assert codec.encode(checkpoint.load(tmp_path / "run").server) == codec.encode(server)
    assert remembered(tmp_path) == hashes(kept)


def test_personal_models_are_evaluated_where_they_are(tmp_path: Path) -> None:
    settings = config("map", **{"evaluate.personal": 1, "train.rounds": 2, "model.hidden": [4]})

    def digits(config: Config, client: int | None) -> Federation:
        return site.simulated(config, client)

    settings = settings.changed({"split.clients": 10, "split.per_client": 2, "engine.name": "serial"})
    serve.serve(settings, tmp_path / "run", digits, DirectPost(settings, tmp_path, digits), resume=False)
    experiment = build.experiment(settings)
    data = experiment.dataset()
    with experiment.session(settings.seeds[0], data) as session:
        expected = [step.record for step in session.rounds()]
    found = RunReader(tmp_path / "run").metrics()
    assert [json.loads(journal.line(record)) for record in expected] == found


# One bad client


@pytest.mark.parametrize(("method", "case"), CASES)
def test_a_bad_reply_through_flower_is_refused(method: str, case: str, tmp_path: Path) -> None:
    settings = config(method, **{"train.participation": 1.0, "train.rounds": 1})
    spoil = CASES[method, case]

    class Spoiling(DirectPost):
        def collect(self, letters: Collection[str]) -> Sequence[Delivery]:
            return [self.spoilt(delivery) for delivery in DirectPost.collect(self, letters)]

        def spoilt(self, delivery: Delivery) -> Delivery:
            answer = unpack_answer(delivery.parcel)
            if BAD not in answer.states:
                return delivery
            bad = to_arrays(pack_reply(spoil(unpack_reply(to_state(answer.states[BAD])))))
            return delivery._replace(parcel=pack_answer(answer._replace(states={**answer.states, BAD: bad})))

    serve.serve(settings, tmp_path / "run", load, Spoiling(settings, tmp_path), resume=False)
    events = [event for event in RunReader(tmp_path / "run").events() if event["event"] == "refused"]
    assert [event["client"] for event in events] == [BAD]
    federation, experiment = load(settings, None), build.experiment(settings)
    algorithm = experiment.algorithm(federation, settings.seeds[0])
    engine, server = Serial(algorithm, federation, experiment.training), algorithm.init()
    others = tuple(client for client in range(8) if client != BAD)
    replies, cohort = engine.exchange(algorithm.message(server, 0), others, 0)
    expected = algorithm.step(server, replies, cohort)
    found = checkpoint.load(tmp_path / "run")
    assert codec.encode(found.server) == codec.encode(expected)
    assert BAD not in found.kept


# A world in which things fail


class Failing(DirectPost):
    """Loses, breaks and delays as told."""

    def __init__(
        self, *given: object, lose: int = 0, crash: int = 0, away: int = 0, mute: int | None = None
    ) -> None:
        DirectPost.__init__(self, *given)  # type: ignore[arg-type]
        self.lose, self.crash, self.away, self.mute = lose, crash, away, mute
        self.looks = itertools.count()

    def nodes(self) -> Collection[int]:
        return () if next(self.looks) < self.away else set(NODES)

    def send(self, node: int, kind: str, parcel: Parcel, seconds: float) -> str:
        letter = DirectPost.send(self, node, kind, parcel, seconds)
        message = self.replies[letter]
        if self.lose > 0 or NODES[node] == self.mute:
            self.lose -= 1
            del self.replies[letter]
        elif self.crash > 0:
            self.crash -= 1
            self.replies[letter] = Message(
                Error(code=0, reason="ClientApp stopped responding."), reply_to=message
            )
        return letter


@pytest.mark.parametrize(
    "trouble", [{"lose": 3}, {"crash": 5}, {"away": 4}, {"lose": 2, "crash": 2, "away": 2}]
)
def test_trouble_changes_nothing(trouble: dict[str, int], tmp_path: Path) -> None:
    settings = config("scaffold", **{"flower.resend": 0.05})
    serve.serve(settings, tmp_path / "run", load, Failing(settings, tmp_path, **trouble), resume=False)
    server, kept = simulated(settings)
    assert codec.encode(checkpoint.load(tmp_path / "run").server) == codec.encode(server)
    assert remembered(tmp_path) == hashes(kept)


def test_who_does_not_answer_in_time_is_left_out_and_may_come_back(tmp_path: Path) -> None:
    settings = config("scaffold", **{"flower.timeout": 0.4, "train.participation": 1.0})

    class Returning(Failing):
        """In round 0 clients 1 and 5 train, and nobody hears of it."""

        def send(self, node: int, kind: str, parcel: Parcel, seconds: float) -> str:
            self.mute = 1 if unpack_order(parcel).round == 0 else None
            return Failing.send(self, node, kind, parcel, seconds)

    post = Returning(settings, tmp_path)
    serve.serve(settings, tmp_path / "run", load, post, resume=False)
    federation, experiment = load(settings, None), build.experiment(settings)
    algorithm = experiment.algorithm(federation, settings.seeds[0])
    engine, server = Serial(algorithm, federation, experiment.training), algorithm.init()
    for round in range(3):
        ids = tuple(client for client in range(8) if round or client % 4 != 1)
        replies, cohort = engine.exchange(algorithm.message(server, round), ids, round)
        server = algorithm.step(server, replies, cohort)
    assert codec.encode(checkpoint.load(tmp_path / "run").server) == codec.encode(server)
    missed = [
        event["client"] for event in RunReader(tmp_path / "run").events() if event["event"] == "refused"
    ]
    assert missed == [1, 5]


def test_over_selection_does_not_wait_for_the_slowest(tmp_path: Path) -> None:
    settings = config("fedavg", **{"flower.over_selection": 1.0, "flower.timeout": 30.0, "train.rounds": 1})
    serve.serve(settings, tmp_path / "run", load, Failing(settings, tmp_path, mute=2), resume=False)
    [record] = RunReader(tmp_path / "run").metrics()
    assert len(record["participants"]) >= 4
    assert not {2, 6} & set(record["participants"])


def test_over_selection_of_everybody_waits_for_everybody(tmp_path: Path) -> None:
    everybody = {"flower.over_selection": 0.3, "train.participation": 1.0, "train.rounds": 1}
    settings = config("fedavg", **everybody)
    serve.serve(settings, tmp_path / "run", load, DirectPost(settings, tmp_path), resume=False)
    [record] = RunReader(tmp_path / "run").metrics()
    assert len(record["participants"]) == load(settings, None).clients


def test_nobody_at_all_stops_the_run_which_can_go_on(tmp_path: Path) -> None:
    settings = config("fedavg", **{"flower.timeout": 0.2})
    place = tmp_path / "run"
    with pytest.raises(NobodyError, match="is not connected"):
        serve.serve(settings, place, load, Failing(settings, tmp_path, away=10**9), resume=False)
    assert [e["why"] for e in RunReader(place).events() if e["event"] == "failed"]
    with pytest.raises(ConfigError, match="already holds a run"):
        serve.serve(settings, place, load, DirectPost(settings, tmp_path), resume=False)
    serve.serve(settings, place, load, DirectPost(settings, tmp_path), resume=True)
    assert codec.encode(checkpoint.load(place).server) == codec.encode(simulated(settings)[0])


@pytest.mark.parametrize("method", ["scaffold", "map", "ditto"])
def test_a_server_killed_after_its_clients_have_trained_goes_on_the_same(method: str, tmp_path: Path) -> None:
    settings = config(method)

    class Dying(DirectPost):
        letters = 0

        def collect(self, letters: Collection[str]) -> Sequence[Delivery]:
            self.letters += 1
            if self.letters == 2:
                raise KeyboardInterrupt
            return DirectPost.collect(self, letters)

    with pytest.raises(KeyboardInterrupt):
        serve.serve(settings, tmp_path / "run", load, Dying(settings, tmp_path), resume=False)
    assert RunReader(tmp_path / "run").round() == 0
    serve.serve(settings, tmp_path / "run", load, DirectPost(settings, tmp_path), resume=True)
    server, kept = simulated(settings)
    assert codec.encode(checkpoint.load(tmp_path / "run").server) == codec.encode(server)
    assert remembered(tmp_path) == hashes(kept)


def test_two_nodes_that_claim_the_same_client(tmp_path: Path) -> None:
    settings = config("fedavg", **{"train.participation": 1.0})

    class Twins(DirectPost):
        def nodes(self) -> Collection[int]:
            return {*NODES, 5000}

        def context(self, node: int):  # type: ignore[no-untyped-def]
            return DirectPost.context(self, 101 if node == 5000 else node)

    serve.serve(settings, tmp_path / "run", load, Twins(settings, tmp_path), resume=False)
    assert codec.encode(checkpoint.load(tmp_path / "run").server) == codec.encode(simulated(settings)[0])


# A client's memory


def same(a: Arrays, b: Arrays) -> bool:
    return codec.encode(to_state(a)) == codec.encode(to_state(b))


def state(value: float) -> State:
    return {"private": {"x": torch.full((2,), value)}}


def test_memory_goes_back_to_what_counted(tmp_path: Path) -> None:
    own = Memory(tmp_path, RUN, 3)
    assert own.at(0) is None
    own.put(0, state(0), since=-1)
    own.put(4, state(4), since=0)
    own.put(7, state(7), since=4)
    assert codec.encode(own.at(4)) == codec.encode(state(4))
    assert codec.encode(own.at(7)) == codec.encode(state(7))
    own.put(9, state(9), since=4)  # the reply of round 7 never counted
    assert own.at(7) is None
    assert codec.encode(own.at(0)) == codec.encode(state(0))  # the server may fall back by one checkpoint
    own.put(9, state(9.5), since=4)
    assert codec.encode(own.at(9)) == codec.encode(state(9.5))


def test_damaged_memory_is_not_used(tmp_path: Path) -> None:
    own = Memory(tmp_path, RUN, 3)
    own.put(0, state(0), since=-1)
    [path] = own.folder.glob("round-*")
    path.write_bytes(path.read_bytes()[:-1])
    assert own.at(0) is None


@pytest.mark.parametrize("run", ["../../x", "", "0" * 31, "z" * 32])
def test_a_run_from_the_network_is_no_path(run: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Memory(tmp_path, run, 0)


def test_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PATIENCE", 0.3)
    own, other = Memory(tmp_path, RUN, 0), Memory(tmp_path, RUN, 0)
    with own.held(), pytest.raises(memory.LockedError), other.held():
        pytest.fail("both hold it")
    with other.held():
        pass


def test_a_task_sent_twice_is_done_once(tmp_path: Path) -> None:
    settings = config("scaffold")
    calls = []

    def counted(config: Config, client: int | None) -> Federation:
        calls.append(client)
        return load(config, client)

    federation = load(settings, None)
    algorithm = build.experiment(settings).algorithm(federation, settings.seeds[0])
    order = Order("train", RUN, 0, {3: -1}, algorithm.message(algorithm.init(), 0))
    first = Node(settings, load, 3, 4, tmp_path).answer(order)
    again = Node(settings, counted, 3, 4, tmp_path).answer(order)
    assert same(first.states[3], again.states[3])
    assert calls == [3]  # to say whom it hosts, and not to train


def test_a_client_that_lost_its_disk_begins_again_and_says_so(tmp_path: Path) -> None:
    settings = config("scaffold")
    algorithm = build.experiment(settings).algorithm(load(settings, None), settings.seeds[0])
    message = algorithm.message(algorithm.init(), 5)
    answer = Node(settings, load, 3, 4, tmp_path).answer(Order("train", RUN, 5, {3: 2}, message))
    assert answer.lost == [3]
    assert list(answer.states) == [3]


# Examples that lie at clients


def test_own_examples_give_the_same_bits(tmp_path: Path) -> None:
    settings = config("fedlc+scaffold")
    whole = world.federation()

    def here(config: Config, client: int | None) -> Federation:
        nothing = whole.data.x[:0].numpy(), whole.data.y[:0].numpy()
        chosen = [] if client is None else whole.partition.train[client]
        mine = whole.data.x[chosen].numpy(), whole.data.y[chosen].numpy()
        return site.own(client, whole.clients, whole.data.classes, mine, nothing)

    serve.serve(settings, tmp_path / "run", here, DirectPost(settings, tmp_path, here), resume=False)
    server, kept = simulated(settings)
    assert codec.encode(checkpoint.load(tmp_path / "run").server) == codec.encode(server)
    assert remembered(tmp_path) == hashes(kept)


@pytest.mark.parametrize(("y", "words"), [([0, 9], "from 0 to 1"), ([], "none to train")])
def test_impossible_examples_are_refused(y: list[int], words: str) -> None:
    arrays = np.zeros((len(y), 3)), np.array(y, dtype=np.int64)
    with pytest.raises(site.DataError, match=words):
        site.own(0, 2, ("a", "b"), arrays, (np.zeros((0, 3)), np.zeros(0, np.int64)))


def test_a_supernode_without_settings_says_what_to_do(tmp_path: Path) -> None:
    post = DirectPost(config("fedavg"), tmp_path)
    context = post.context(101)
    del context.node_config["state-dir"]
    with pytest.raises(ConfigError, match="--node-config"):
        handler(post.config, load)(Parcel({}, ""), context.node_config)


def test_a_client_whose_data_cannot_be_read_does_not_stop_its_neighbours(tmp_path: Path) -> None:
    def broken(settings: Config, client: int | None) -> Federation:
        if client == 0:
            raise DataError("the disk of client 0 is gone")
        return load(settings, client)

    settings = config("fedavg", **{"train.participation": 1.0, "train.rounds": 1})
    serve.serve(settings, tmp_path / "run", load, DirectPost(settings, tmp_path, broken), resume=False)
    [record] = RunReader(tmp_path / "run").metrics()
    assert record["participants"] == [1, 2, 3, 4, 5, 6, 7]


def test_a_deployment_does_not_go_on_with_other_settings(tmp_path: Path) -> None:
    settings = config("fedavg", **{"train.rounds": 1})
    serve.serve(settings, tmp_path / "run", load, DirectPost(settings, tmp_path), resume=False)
    other = settings.changed({"train.lr": 0.2})
    with pytest.raises(ConfigError, match="holds a run with other settings"):
        serve.serve(other, tmp_path / "run", load, DirectPost(other, tmp_path), resume=True)


def test_a_deployment_that_diverges_is_told_from_one_that_failed(tmp_path: Path) -> None:
    settings = config("fedavg", **{"train.lr": 1e6, "gate.enabled": False})
    with pytest.raises(DivergedError):
        serve.serve(settings, tmp_path / "run", load, DirectPost(settings, tmp_path), resume=False)
    assert failures.has_diverged(RunReader(tmp_path / "run"))


def test_the_model_of_a_deployment_can_be_taken_out(tmp_path: Path) -> None:
    settings = config("fedavg", **{"train.rounds": 1, "split.clients": 10})
    post = DirectPost(settings, tmp_path, site.simulated)
    serve.serve(settings, tmp_path / "run", site.simulated, post, resume=False)
    taken, found = use.take(tmp_path / "run"), checkpoint.load(tmp_path / "run")
    assert taken.who == "the global model"
    with pytest.raises(ConfigError, match="have their models at home"):
        use.take(tmp_path / "run", 0)
    assert found is not None
    assert torch.equal(
        dict(taken.network.named_parameters())["head.weight"], found.server["shared"]["head.weight"]
    )


def test_the_app_of_a_run_that_is_gone_gets_the_settings_of_the_new_one(tmp_path: Path) -> None:
    settings, place = config("fedavg", **{"split.clients": 10}), tmp_path / "0"
    written = local.prepare(settings, place, tmp_path / "0-flower")
    assert local.prepare(settings, place, tmp_path / "0-flower") == written
    other = settings.changed({"train.lr": 0.2})
    with pytest.raises(ConfigError, match="other settings"):
        local.prepare(other, place, tmp_path / "0-flower")
    rmtree(place)
    local.prepare(other, place, tmp_path / "0-flower")
    assert load_config(written / "fedskew_app" / "experiment.toml").train.lr == 0.2
