"""One record of metrics per evaluated round, from the models of the server and of every client."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedskew import metrics
from fedskew.agreement import mean_cosine
from fedskew.algorithm import Algorithm
from fedskew.engines.engine import Engine
from fedskew.engines.feed import Feed
from fedskew.examine import Exam, Marks, answers, confusions
from fedskew.fit import Round
from fedskew.ranges import Count, Natural, enforce
from fedskew.traffic import traffic

Record = dict[str, Any]


@dataclass(frozen=True)
class Timetable:
    """When to evaluate; the last ten rounds always are, since a result is their mean."""

    every: Count = 1  # rounds between evaluations of the server's model
    personal: Natural = 5  # rounds between evaluations of every client's model; 0 for never
    tail: Natural = 10

    def __post_init__(self) -> None:
        enforce(self)

    def overall(self, number: int, rounds: int) -> bool:
        """Whether the server's model is evaluated after this round."""
        return (number + 1) % self.every == 0 or number >= rounds - self.tail

    def clients(self, number: int, rounds: int) -> bool:
        """Whether the clients' models are."""
        return bool(self.personal) and ((number + 1) % self.personal == 0 or number >= rounds - self.tail)


@dataclass
class Evaluator:
    """Makes the records; remembers the marks of clients whose models have not changed."""

    algorithm: Algorithm
    engine: Engine
    feed: Feed
    timetable: Timetable = Timetable()
    also: tuple[str, ...] = ()  # further personal models, beside the method's own
    _marks: dict[int, Marks] = field(default_factory=dict)

    def record(self, round: Round, rounds: int) -> tuple[Record, Record]:
        """(metrics of the round, marks of every client)."""
        out: Record = {"round": round.number, "participants": list(round.cohort.ids), **self._training(round)}
        clients: Record = {}
        for client in round.cohort.ids:
            self._marks.pop(client, None)
        ensemble, last = self.algorithm.answers_together, round.number + 1 == rounds
        votes = ensemble and len(self._test) > 0
        if self.timetable.clients(round.number, rounds):
            marks = self._examine(round, votes)
            clients = {"round": round.number, **_per_client(marks, self.names)}
            out |= self._personal(round, marks)
            if votes:
                ballots = [mark.ballot for mark in marks.values() if mark.ballot is not None]
                out |= _global(self._ensemble(ballots), last) | {"global.voters": len(ballots)}
        if not ensemble and self.timetable.overall(round.number, rounds):
            out |= self._server(round, last)
        return out, clients

    @property
    def names(self) -> tuple[str, ...]:
        """The personal models that are evaluated, the method's own first, and what an inherited one inherits."""
        own = self.algorithm.method.home
        beside = ("trained",) if own == "inherited" else ()
        return tuple(dict.fromkeys((own, *beside, *self.also)))

    def _training(self, round: Round) -> Record:
        if round.replies is None:
            return {"train.loss": math.nan}
        losses = round.replies.loss.double()
        down, up = traffic(self.algorithm, round.before, round.replies, round.cohort, self.feed)
        out = {"train.loss": float(losses.mean()), "train.max_loss": float(losses.max())}
        out |= {"bytes.down": down, "bytes.up": up}
        for part, entries in round.server.items():
            out |= {
                f"state.{part}.{name}": float(value) for name, value in entries.items() if value.ndim == 0
            }
        return out

    def _server(self, round: Round, last: bool) -> Record:
        novel = [self._home(client) for client in self.feed.federation.partition.novel]
        asked = [self._test, *novel]
        logits = answers(self.engine.answer, self.feed, round.server, asked)
        cm, *strangers = confusions(self.feed, logits, asked)
        out = _global(cm, last)
        if self.algorithm.method.network.name == "OneVsAll":
            truth = self.feed.federation.data.y[self._test]
            out["global.components"] = metrics.component_accuracy(logits[0], truth).tolist()
        if strangers:
            out["novel.accuracy"] = float(metrics.pooled(torch.stack(strangers)))
        return out

    def _examine(self, round: Round, ballot: bool) -> dict[int, Marks]:
        trainers = self.feed.federation.trainers
        due = [client for client in trainers if client not in self._marks]
        found = self.engine.examine(round.server, due, Exam(self.names, ballot=ballot))
        marks = {**self._marks, **dict(zip(due, found, strict=True))}
        follows = any(part.follows_server for part in self.algorithm.method.parts)
        if not follows and not set(self.names) & {"global", "adapted", "adapted_step"}:
            self._marks = {client: mark for client, mark in marks.items() if mark.seen}
        return {client: marks[client] for client in trainers}

    def _personal(self, round: Round, marks: dict[int, Marks]) -> Record:
        counts = self.feed.federation.counts[list(marks)]
        out: Record = {"personal.unseen_clients": sum(not mark.seen for mark in marks.values())}
        told = metrics.mean_over_clients(torch.stack([mark.told for mark in marks.values()]).mT)
        out |= {f"client.{n}": v for n, v in zip(self.algorithm.told, told.tolist(), strict=True)}
        for index, name in enumerate(self.names):
            start = f"personal.{name}." if index else "personal."
            home = torch.stack([mark.home[index] for mark in marks.values()])
            whole = torch.stack([mark.whole[index] for mark in marks.values() if mark.whole is not None])
            chosen = torch.tensor([client in round.cohort.ids for client in marks])
            out |= {start + key: value for key, value in _clients(home, whole, counts, chosen).items()}
        if not self.algorithm.answers_together and round.cohort.ids:
            homes = [self._home(client) for client in round.cohort.ids]
            asked = [self._test, *homes]
            logits = answers(self.engine.answer, self.feed, round.before, asked)
            before, *downloaded = confusions(self.feed, logits, asked)
            out["before.per_class"] = metrics.per_class(before).tolist()
            accuracy = metrics.accuracy(torch.stack(downloaded))
            out["personal.downloaded"] = float(metrics.mean_over_clients(accuracy))
        if round.replies is not None:
            out["update.cosine"] = mean_cosine(round.before["shared"], round.replies.shared)
        return out

    @property
    def _test(self) -> Tensor:
        return torch.from_numpy(self.feed.federation.data.test)

    def _home(self, client: int) -> Tensor:
        return torch.from_numpy(self.feed.federation.partition.test[client])

    def _ensemble(self, ballots: list[Tensor]) -> Tensor:
        truth = self.feed.federation.data.y[self._test]
        votes = torch.stack(ballots).sum(0)
        return metrics.confusion(metrics.predict(votes), truth, self.feed.federation.classes)


def due(record: Record, timetable: Timetable, rounds: int, ensemble: bool) -> Record:
    """What of a record a run of so many rounds would have made, whose last rounds may be others."""
    number = record["round"]
    clients = timetable.clients(number, rounds)
    server = clients if ensemble else timetable.overall(number, rounds)
    when = {
        "personal": clients,
        "client": clients,
        "before": clients,
        "update": clients,
        "global": server,
        "novel": server,
    }
    kept = {key: value for key, value in record.items() if when.get(key.split(".")[0], True)}
    return kept if number + 1 == rounds else {n: v for n, v in kept.items() if n != "global.confusion"}


def _global(cm: Tensor, last: bool) -> Record:
    out: Record = {
        "global.accuracy": float(metrics.accuracy(cm)),
        "global.macro_f1": float(metrics.macro_f1(cm)),
        "global.per_class": metrics.per_class(cm).tolist(),
    }
    return {**out, "global.confusion": cm.tolist()} if last else out


def _clients(home: Tensor, whole: Tensor, counts: Tensor, chosen: Tensor) -> Record:
    """Metrics over clients of one named model; `chosen` marks the participants of the round."""
    accuracy = metrics.accuracy(home)
    tp, tr = metrics.macro_f1(home, "present"), metrics.macro_f1(whole)
    untold = counts.sum(1) == 0  # a server that does not know what its clients hold
    groups = [values.masked_fill(untold, math.nan) for values in metrics.group_accuracy(whole, counts)]
    local = metrics.local_test(tp, tr)
    return {
        "accuracy": float(metrics.pooled(home)),
        "mean": float(metrics.mean_over_clients(accuracy)),
        "selected": float(metrics.mean_over_clients(accuracy[chosen])),
        "worst10": float(metrics.worst_share(accuracy)),
        "std": float(metrics.spread(accuracy)),
        "drift": float(metrics.pooled(whole)),
        **{
            name: float(metrics.mean_over_clients(values))
            for name, values in zip(metrics.Groups._fields, groups, strict=True)
        },
        "macro_f1": float(metrics.mean_over_clients(tp)),
        "whole_f1": float(metrics.mean_over_clients(tr)),
        "local_f1": float(local[0]),
        "local_f1_of_means": float(local[1]),
    }


def _per_client(marks: dict[int, Marks], names: tuple[str, ...]) -> Record:
    out: Record = {"clients": list(marks)}
    for index, name in enumerate(names):
        home = torch.stack([mark.home[index] for mark in marks.values()])
        whole = torch.stack([mark.whole[index] for mark in marks.values() if mark.whole is not None])
        out[f"{name}.accuracy"] = metrics.accuracy(home).tolist()
        out[f"{name}.drift"] = metrics.accuracy(whole).tolist()
        out[f"{name}.per_class"] = metrics.per_class(whole).tolist()
    return out
