"""Fair aggregates: the weights of clients follow their losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from fedskew import tree
from fedskew.errors import ConfigError
from fedskew.part import Aggregate, Section
from fedskew.parts.aggregates import moved, shares
from fedskew.ranges import NonNegative
from fedskew.tree import Tree
from fedskew.values import Cohort, Model, Reply, Run, View

if TYPE_CHECKING:
    from fedskew.method import Method

Report = Literal["running", "pre", "post"]
LOSS = "its mean training loss"


def reported(report: Report, run: Run, view: View) -> Tensor:
    """A client's loss: the mean in training, or of the received or of the uploaded model over its data."""
    if report == "running":
        return run.loss
    return view.score(view.received if report == "pre" else run.emitted)


@dataclass(frozen=True)
class AdaptivePower(Aggregate):
    """Weights are losses to a power q that follows their spread (GRP-FED, Chou et al., 2021, Eq. 2-3).

    The spread is over participants, who alone report; `rate = 0` keeps q, and `q = 0` then is uniform.
    """

    q: NonNegative = 10.0
    rate: NonNegative = 0.5
    report: Report = "running"
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    reveals: ClassVar[str] = LOSS

    def server_state(self, shared: Tree, population: int) -> Tree:
        return {
            "q": torch.tensor(self.q, dtype=torch.float64),
            "spread": torch.tensor(-1.0, dtype=torch.float64),
            "largest": torch.tensor(0.0, dtype=torch.float64),  # weight of a client in the last round
        }

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        return {"loss": reported(self.report, run, view)}, {}

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        losses = replies.extra[self.name]["loss"].double()
        spread = (losses - losses[0]).std(correction=0)  # exactly 0 where all are equal
        q = next_power(state["q"], state["spread"], spread, self.rate)
        weights = power_weights(losses, q)
        return tree.mean(replies.shared, weights), {"q": q, "spread": spread, "largest": weights.max()}


def next_power(q: Tensor, before: Tensor, spread: Tensor, rate: float) -> Tensor:
    """q + rate times the relative change of the spread, never below 0; `before` is negative if unknown."""
    both = spread + before
    known = (before >= 0) & (both > 0)
    change = 2 * rate * (spread - before) / torch.where(known, both, 1)
    return (q + torch.where(known, change, 0)).clamp(min=0)


def power_weights(losses: Tensor, q: Tensor | float) -> Tensor:
    """L^q / sum L^q in the log domain; a loss of zero has no weight, all zero or q = 0 is uniform."""
    some = losses > 0
    exponent = torch.where(some, q * torch.where(some, losses, 1).log(), -torch.inf)
    return torch.softmax(torch.where(some.any() & (torch.as_tensor(q) > 0), exponent, 0), 0)


@dataclass(frozen=True)
class Agnostic(Aggregate):
    """Weights of all clients, raised where the loss is and kept on the simplex (AFL, Mohri et al., 2019)."""

    rate: NonNegative = 0.1
    report: Report = "running"
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    reveals: ClassVar[str] = LOSS

    def server_state(self, shared: Tree, population: int) -> Tree:
        weights = torch.full((population,), 1 / population, dtype=torch.float64)
        return {"weights": weights, "clients": torch.full((population,), -1)}

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        return {"loss": reported(self.report, run, view)}, {}

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        clients, places = seated(state["clients"], cohort.ids)
        weights = shares(state["weights"][places])
        raised = state["weights"].index_add(0, places, self.rate * replies.extra[self.name]["loss"].double())
        return tree.mean(replies.shared, weights), {"weights": project_simplex(raised), "clients": clients}


def seated(clients: Tensor, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    """(who has which place, the places of `ids`); a newcomer takes the first free one, marked -1.

    Numbers of clients may have gaps, and places nobody has taken yet all weigh the same.
    """
    known = clients.tolist()
    for client in sorted(set(ids) - set(known)):
        known[known.index(-1)] = client
    return torch.tensor(known), torch.tensor([known.index(client) for client in ids])


def project_simplex(point: Tensor) -> Tensor:
    """The nearest vector that is nowhere negative and sums to 1, exactly."""
    point = point - point.max()  # which changes nothing, but that 1 is not lost beside a large number
    down = point.sort(descending=True).values
    count = torch.arange(1, len(point) + 1, dtype=point.dtype)
    shift = (1 - down.cumsum(0)) / count
    last = (down + shift > 0).nonzero().amax()
    return (point + shift[last]).clamp(min=0)


@dataclass(frozen=True)
class FairDescent(Aggregate):
    """A step whose length bounds the curvature of the q-fair objective (q-FedAvg, Li et al., 2020).

    All is divided by the largest F^q, which changes nothing but keeps numbers finite.
    """

    q: NonNegative = 10.0
    needs: ClassVar[tuple[Section, ...]] = ("anything",)
    reveals: ClassVar[str] = "the loss of the received model"

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        return {"loss": reported("pre", run, view)}, {}

    def refuses(self, upload: Tree, model: Model) -> str:
        return "" if bool(upload["loss"] >= 0) else "its loss is negative"

    def check(self, method: Method) -> None:
        if not method.schedule.descends:
            raise ConfigError(
                "FairDescent reads the curvature of a client's loss off the learning rate, and "
                f"{method.schedule.name} moves the model by another rule."
            )

    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        losses = replies.extra[self.name]["loss"].double()
        distances = [
            (y - shared[n]).reshape(len(y), -1).square().sum(1).double()
            for n, y in replies.shared.items()
            if n not in model.buffers
        ]
        weights = fair_weights(losses, torch.stack(distances).sum(0), cohort.rate, self.q)
        plain = torch.full_like(weights, 1 / len(weights))
        return moved(shared, replies.shared, weights, plain, model.buffers), state


def fair_weights(losses: Tensor, distances: Tensor, rate: float, q: float) -> Tensor:
    """The weight of each client's change in q-FedAvg, from its loss and how far it moved, squared."""
    loss, slope = losses + 1e-10, 1 / rate
    power = (q * (loss / loss.max()).log()).exp()  # F^q over the largest
    curvature = power * (q * slope**2 * distances / loss + slope)
    return power * slope / curvature.sum()
