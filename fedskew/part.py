"""Part and the slots: frozen hyper-parameters with pure hooks whose defaults do nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor

from fedskew.phase import Phase
from fedskew.ranges import enforce
from fedskew.step import SGD
from fedskew.tree import Tree, nbytes
from fedskew.values import Batch, Client, Cohort, Model, Out, Reply, Run, View

if TYPE_CHECKING:
    from fedskew.method import Kit, Method

Section = Literal["anything", "body", "head"]


@dataclass(frozen=True)
class Part(ABC):
    """A piece of a method; state is passed in and returned, never stored."""

    reveals: ClassVar[str] = ""  # what leaves the client beyond parameters, in words
    needs: ClassVar[tuple[Section, ...]] = ()  # what of the network must be shared for it to mean anything
    offers: ClassVar[str] = ""  # the model it lets a client predict with at home, a key of `models`
    tells: ClassVar[tuple[str, ...]] = ()  # the keys of `tell`
    one_network: ClassVar[bool] = False  # remembers, or reads the features of, one network for all classes
    completes: ClassVar[bool] = False  # its models are the shared network with something of the client's own
    follows_server: ClassVar[bool] = False  # a client's models change while it does not take part

    def __post_init__(self) -> None:
        enforce(self)

    @property
    def name(self) -> str:
        return type(self).__name__

    def server_state(self, shared: Tree, population: int) -> Tree:
        """What the server remembers, made from the shared parameters."""
        return {}

    def client_state(self, model: Model, params: Tree, seed: int) -> Tree:
        """What a client remembers, made at its first participation."""
        return {}

    def broadcast(self, state: Tree) -> Tree:
        """What of the server's state travels to the clients."""
        return {}

    def start(self, client: Tree, received: Tree) -> Tree:
        """The client's own entries at the beginning of a round."""
        return client

    def finish(self, run: Run, view: View) -> tuple[Tree, Tree]:
        """(upload, keep) at the end of a round."""
        return {}, view.client

    def absorb(self, state: Tree, extra: Tree, cohort: Cohort) -> Tree:
        """The server's state after the round, from the stacked uploads of this part."""
        return state

    def refuses(self, upload: Tree, model: Model) -> str:
        """Why the server cannot use one client's upload, whose shapes and types are right; empty if it can."""
        return ""

    def models(self, view: View) -> dict[str, Tree]:
        """Named models a client can predict with, as trees of the network."""
        return {}

    def tell(self, view: View) -> Tree:
        """Numbers of a client that belong into the record of a run."""
        return {}

    def check(self, method: Method) -> None:
        """Raises ConfigError on a combination that means nothing."""

    def fits(self, model: Model, clients: int) -> None:
        """Raises ConfigError on settings that are not for this network or so many clients."""


@dataclass(frozen=True)
class Objective(Part):
    """What a client minimises."""

    @abstractmethod
    def loss(self, out: Out, batch: Batch, view: View) -> Tensor: ...

    def at_home(self) -> Objective:
        """What serves the personal model: the same, unless this one serves the average only."""
        return self


@dataclass(frozen=True)
class Term(Part):
    """Something added to local training: to the loss, or as a closed-form pull on the parameters."""

    personal: ClassVar[bool] = False  # serves the personal model, not the upload
    scales: ClassVar[bool] = False  # weighs the objective's loss, to which other terms are then added

    def own(self, model: Model) -> tuple[str, ...]:
        """Which of its own entries are trained along with the network."""
        return ()

    def loss(self, base: Tensor, out: Out, batch: Batch, view: View) -> Tensor:
        """The loss with this term, given the loss without it."""
        return base

    def force(self, view: View) -> Tree:
        """What is added to the gradient, by name of the model's entries."""
        return {}

    def solver(self, solver: SGD) -> SGD:
        """The step rule this term needs."""
        return solver


@dataclass(frozen=True)
class Schedule(Part):
    """The phases of a local round."""

    descends: ClassVar[bool] = True  # the uploaded network moves down its own gradient at the solver's rate

    @abstractmethod
    def phases(self, kit: Kit) -> tuple[Phase, ...]: ...


@dataclass(frozen=True)
class Share(Part):
    """Which entries are averaged; the rest stays with the client."""

    gives: ClassVar[tuple[Section, ...]] = ("anything", "body", "head")  # what of the network is shared
    sends: ClassVar[str] = "all parameters"  # the same in words

    @abstractmethod
    def names(self, model: Model) -> tuple[str, ...]: ...

    def take(self, shared: Tree, data: Client) -> Tree:
        """What of the broadcast the client works on."""
        return shared

    def rows(self, data: Client) -> Sequence[Client]:
        """The client once for each row of what it works on, where no row's training depends on another's."""
        return (data,)

    def put(self, shared: Tree, trained: Tree, data: Client) -> Tree:
        """The broadcast with the client's trained entries in place."""
        return trained

    def hold(self, new: Tree, old: Tree, data: Client) -> Tree:
        """New entries where the client may move them, old ones elsewhere."""
        return new

    def bytes_down(self, shared: Tree, data: Client) -> int:
        """What one client downloads of the shared tree."""
        return nbytes(shared)

    def bytes_up(self, replies: Reply) -> int:
        """What all participants upload of the shared tree."""
        return nbytes(replies.shared)


@dataclass(frozen=True)
class Aggregate(Part):
    """How replies become one tree."""

    scalars: ClassVar[int] = 0  # numbers it needs of every client beside the parameters

    @property
    def weighs(self) -> bool:
        """Whether it must know how many examples a client has."""
        return False

    @abstractmethod
    def combine(
        self, shared: Tree, replies: Reply, cohort: Cohort, state: Tree, model: Model
    ) -> tuple[Tree, Tree]:
        """(combined tree, new state); `shared` is the server's tree before the round."""


@dataclass(frozen=True)
class Server(Part):
    """How the server moves from its model to the combined one."""

    @abstractmethod
    def update(self, old: Tree, combined: Tree, state: Tree, model: Model) -> tuple[Tree, Tree]:
        """(new parameters, new state); statistics of batch-norm do not pass through here."""


@dataclass(frozen=True)
class Network(Part):
    """How the network is built from a factory that takes the number of outputs."""

    @abstractmethod
    def build(self, factory: Callable[[int], Model], classes: int) -> Model: ...
