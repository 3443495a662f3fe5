"""A method bound to a network and a solver: init, fresh, message, local, step, personal."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from fedskew import keys, tree
from fedskew.adapt import adapt
from fedskew.errors import ConfigError, unknown
from fedskew.local import Differentiate, autograd, beside, train
from fedskew.method import BUILT_IN, Kit, Method
from fedskew.part import Part
from fedskew.phase import Context, Phase
from fedskew.step import SGD
from fedskew.tree import State, Tree
from fedskew.values import Client, Cohort, Model, Reply, Run, View

BATCH = 1000  # examples that a network answers at once


@dataclass(frozen=True)
class Algorithm:
    """Everything a round needs; no engine knows the method, no method knows the engine."""

    method: Method
    model: Model
    solver: SGD = SGD()
    population: int = 1
    expected: float = 20.0  # participations of a client in the whole run, on average
    seed: int = 0
    keep_trained: bool = True  # personal evaluation needs every client's last model
    dtype: torch.dtype = torch.float32

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """Names that are averaged."""
        return self.method.share.names(self.model)

    @cached_property
    def private(self) -> tuple[str, ...]:
        """Names that stay with the client."""
        averaged = frozenset(self.shared)
        return tuple(name for name in self.model.names if name not in averaged)

    @property
    def answers_together(self) -> bool:
        """Whether the clients' models answer for everybody, since the server's lacks what they keep."""
        return bool(self.private)

    @cached_property
    def initial(self) -> Tree:
        """The common initial network."""
        return tree.cast(self.model.init(keys.integer("model", self.seed)), self.dtype)

    def __post_init__(self) -> None:
        for part in self.method.parts:
            part.fits(self.model, self.population)
        self.phases(0)  # an update that cannot be built for this network says so here

    def phases(self, round: int) -> tuple[Phase, ...]:
        """The local round as data."""
        return self.method.schedule.phases(self._kit(round))

    def _kit(self, round: int) -> Kit:
        return Kit(self.model, self.method, self.shared, self.solver.at(round))

    def init(self) -> State:
        """The server before the first round."""
        shared = tree.pick(self.initial, self.shared)
        moved = {name: value for name, value in shared.items() if name not in self.model.buffers}
        states = {part.name: part.server_state(moved, self.population) for part in self.method.parts}
        return {"shared": shared, **{name: state for name, state in states.items() if state}}

    def fresh(self, client: int) -> State:
        """What a client remembers before its first round."""
        state: State = {"private": tree.pick(self.initial, self.private)}
        for part in self.method.parts:
            own = part.client_state(self.model, self.initial, keys.integer("client", self.seed, client))
            if own:
                state[part.name] = tree.cast(own, self.dtype)
        return state

    def message(self, server: State, round: int) -> State:
        """What every participant receives."""
        sent = {part.name: part.broadcast(server.get(part.name, {})) for part in self.method.parts}
        clock = {"round": torch.tensor(round)}
        return {"shared": server["shared"], "clock": clock, **{n: t for n, t in sent.items() if t}}

    @torch.no_grad()
    def local(
        self, message: State, kept: State, data: Client, differentiate: Differentiate = autograd
    ) -> tuple[Reply, State]:
        """A client's whole round as one pure function."""
        round = int(message["clock"]["round"])
        with self._drawing(data, round):
            return self._local(message, kept, data, round, differentiate)

    def _drawing(self, data: Client, *key: int) -> AbstractContextManager[None]:
        """What the network draws in training follows from the client and the key."""
        if not self.model.draws:
            return nullcontext()
        return keys.chance("dropout", self.seed, *key, int(data.id))

    def _local(
        self, message: State, kept: State, data: Client, round: int, differentiate: Differentiate
    ) -> tuple[Reply, State]:
        kit = self._kit(round)
        received = {**self.method.share.take(message["shared"], data), **kept["private"]}
        work = dict(received)
        for part in self.method.parts:
            if part.name in kept:
                work.update(tree.prefix(part.start(kept[part.name], received), part.name))
        context = Context(received, message, data, round, kit.solver.lr, self.expected)
        run = self._run(kit, work, context, differentiate)
        extra, state = self._finish(run, kit, context)
        state["private"] = tree.pick(run.end, self.private)
        if self.keep_trained:
            state["trained"] = tree.pick(run.end, self.shared)
        samples = data.counts.sum().to(run.loss.dtype)
        uploaded = tree.pick(run.emitted, self.shared)
        return Reply(uploaded, extra, samples, run.steps, run.effective_steps, run.loss), state

    def _run(self, kit: Kit, work: Tree, context: Context, differentiate: Differentiate) -> Run:
        phases, share = self.method.schedule.phases(kit), self.method.share

        def hold(new: Tree, old: Tree) -> Tree:
            return share.hold(new, old, context.data)

        rows = share.rows(context.data)
        apart = kit.solver.clip is None and len(work) == len(self.model.names)
        if len(rows) < 2 or not apart:
            return train(phases, work, self.model.names, context, hold, differentiate)
        # One after the other stays in the processor's cache; nothing that is trained depends on another row.
        runs = []
        for index, data in enumerate(rows):
            own = tree.rows(work, index, index + 1)
            mine = context._replace(data=data, received=tree.rows(context.received, index, index + 1))
            runs.append(train(phases, own, self.model.names, mine, hold, differentiate))
        return beside(runs)

    def _finish(self, run: Run, kit: Kit, context: Context) -> tuple[State, State]:
        extra, state = State(), State()
        for part in self.method.parts:
            upload, keep = part.finish(run, kit.view(part, run.end, context))
            if upload:
                extra[part.name] = upload
            if keep:
                state[part.name] = keep
        return extra, state

    @torch.no_grad()
    def step(self, server: State, replies: Reply, cohort: Cohort) -> State:
        """The server after the round."""
        aggregate, rule = self.method.aggregate, self.method.server
        cohort = cohort._replace(rate=self.solver.at(cohort.round).lr)
        old = server["shared"]
        state = server.get(aggregate.name, {})
        combined, state = aggregate.combine(old, replies, cohort, state, self.model)
        new = {**server, aggregate.name: state}
        moving = [name for name in self.shared if name not in self.model.buffers]
        state = server.get(rule.name, {})
        params, state = rule.update(tree.pick(old, moving), tree.pick(combined, moving), state, self.model)
        new |= {"shared": {**combined, **params}, rule.name: state}
        for part in self.method.parts:
            if part.name in replies.extra and part not in (aggregate, rule):
                new[part.name] = part.absorb(server.get(part.name, {}), replies.extra[part.name], cohort)
        return {name: entries for name, entries in new.items() if entries or name == "shared"}

    def overall(self, server: State) -> Tree:
        """The server's network; private entries as they were at the start."""
        return {**self.initial, **server["shared"]}

    def personal(self, server: State, kept: State | None, data: Client, name: str | None = None) -> Tree:
        """A named model of a client as a tree of the network."""
        wanted = name or self.method.home
        if wanted in ("adapted", "adapted_step"):
            return self.adapted(server, kept, data, None if wanted == "adapted" else 1)
        if kept is None:
            return self._newcomer(server, data, wanted)
        if wanted == "global":
            return {**self.overall(server), **kept["private"]}
        models = self.models(server, kept, data)
        if wanted == "trained" and wanted not in models:
            raise ConfigError(
                "the run has kept no client's trained model (evaluate.personal = 0). Take the global one, or "
                "'adapted'."
            )
        if wanted not in models:
            raise ConfigError(unknown("personal model", wanted, {*models, *BUILT_IN}))
        return models[wanted]

    def _newcomer(self, server: State, data: Client, wanted: str) -> Tree:
        """The model of a client that never took part: the server's, with private pieces as they begin."""
        completed = any(part.completes and wanted == part.offers for part in self.method.parts)
        return (
            self.models(server, self.fresh(int(data.id)), data)[wanted] if completed else self.overall(server)
        )

    @torch.no_grad()
    def adapted(self, server: State, kept: State | None, data: Client, steps: int | None) -> Tree:
        """The server's network after an epoch, or so many steps, over the client's data."""
        private = kept["private"] if kept else tree.pick(self.initial, self.private)
        received = {**self.method.share.take(server["shared"], data), **private}
        kit = Kit(self.model, self.method, self.shared, replace(self.solver, warmup=0))
        with self._drawing(data):
            end = adapt(kit, received, data, self.expected, steps)
        trained = self.method.share.put(server["shared"], tree.pick(end, self.shared), data)
        return {**self.overall(server), **tree.pick(end, self.private), **trained}

    def models(self, server: State, kept: State, data: Client) -> dict[str, Tree]:
        """All named models of a client that has taken part."""
        found: dict[str, Tree] = {}
        params = {**self.overall(server), **kept["private"]}
        if "trained" in kept:
            params = {**params, **self.method.share.put(server["shared"], kept["trained"], data)}
            found["trained"] = params
        for part in self.method.parts:
            if part.offers:
                found.update(part.models(self._at_rest(part, params, kept, data)))
        return found

    @property
    def told(self) -> tuple[str, ...]:
        """What `tell` is about, as part and name."""
        return tuple(f"{part.name}.{name}" for part in self.method.parts for name in part.tells)

    def tell(self, kept: State | None, data: Client) -> Tensor:
        """Numbers [len(told)] of a client's state; nan for one that never took part."""
        if kept is None or not self.told:
            return torch.full((len(self.told),), torch.nan, dtype=torch.float64)
        telling = [part for part in self.method.parts if part.tells]
        found = [part.tell(self._at_rest(part, self.initial, kept, data)) for part in telling]
        return torch.stack(
            [one[n].double() for part, one in zip(telling, found, strict=True) for n in part.tells]
        )

    def _at_rest(self, part: Part, params: Tree, kept: State, data: Client) -> View:
        """The part's view of a client between rounds."""
        context = Context(params, {}, data, 0, self.solver.lr, self.expected)
        return self._kit(0).view(part, {**params, **tree.prefix(kept[part.name], part.name)}, context)

    def part(self, name: str) -> Part:
        """The part of this name."""
        return next(part for part in self.method.parts if part.name == name)

    def predict(self, params: Tree, x: Tensor, batch: int = BATCH) -> Tensor:
        """Logits of many examples, in evaluation mode."""
        with torch.no_grad():
            return torch.cat(
                [self.model.forward(params, piece, False).logits for piece in torch.split(x, batch)]
            )
