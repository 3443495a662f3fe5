"""Which engine runs the clients: as told, or whichever is fastest on a piece of this very run."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from fedskew.algorithm import Algorithm
from fedskew.cores import cores
from fedskew.engines import vectorised
from fedskew.engines.engine import Engine
from fedskew.engines.feed import Feed
from fedskew.engines.pool import Pool
from fedskew.engines.quarters import quarters
from fedskew.engines.serial import Serial
from fedskew.engines.vectorised import Vectorised
from fedskew.errors import ConfigError
from fedskew.gate import Gate, Limits
from fedskew.kernels import Backend, prepare, ready
from fedskew.ranges import Count, Natural, enforce

if TYPE_CHECKING:
    from fedskew.engines.ray import Ray

K = TypeVar("K")

_STEPS = 4  # of each phase, in a trial
_TRIALS, _ENOUGH = 5, 0.5  # how often at most, and seconds after which no further one begins
_HANDLING = 0.002  # seconds the pool adds to a client for files and messages
_LONG = 0.01  # seconds of a client from which on processes are worth starting
_SMALL = 0.001  # seconds of a step that is all overhead: kernels are not worth compiling, vmap may help


Name = Literal["auto", "serial", "vectorised", "pool", "ray"]


@dataclass(frozen=True)
class Choice:
    """An engine and its settings; `auto` measures and picks."""

    name: Name = "auto"
    workers: Natural = 0
    block: Count = 10
    backend: Literal["auto", "autograd", "torch", "native"] = "auto"
    device: str = "cpu"

    def __post_init__(self) -> None:
        enforce(self)
        if self.device == "cpu":
            return
        if self.name in ("pool", "ray"):
            raise ConfigError(
                f"engine.device = '{self.device}': its clients run in one process. Set engine.name to 'serial', "
                f"'vectorised' or 'auto' instead of '{self.name}'."
            )
        if self.backend in ("torch", "native"):
            raise ConfigError(
                f"engine.device = '{self.device}': the backend '{self.backend}' is for processors. "
                "Set engine.backend to 'auto' or 'autograd'."
            )

    @property
    def kernels(self) -> Backend:
        """The backend: what has not been measured is left to torch."""
        return "autograd" if self.backend == "auto" else self.backend


def resolve(choice: Choice, algorithm: Algorithm, feed: Feed) -> Choice:
    """The choice with every `auto` replaced by what is fastest here."""
    if choice.name == "ray":
        _ray()  # refused before anything is written
    if choice.name == "vectorised":
        vectorised.check(algorithm)
    if choice.name == "vectorised" or choice.device != "cpu":
        choice = replace(choice, backend="autograd")
    if "auto" not in (choice.name, choice.backend):
        return choice
    times = _backends(choice, feed)
    backend = min(times, key=lambda name: times[name])
    if choice.name != "auto":
        return replace(choice, backend=backend)
    client = _typical(feed)
    engines: dict[Name, float] = {"serial": times[backend] * feed.steps(client)}
    on_cpu, workers = choice.device == "cpu", choice.workers or cores()
    if on_cpu and workers > 1 and engines["serial"] > _LONG and not _inside_worker():
        engines["pool"] = (engines["serial"] + _HANDLING) / workers
    small = times.get("autograd", times[backend]) < _SMALL or not on_cpu
    # A part of somebody else may not know of padding, and its loss would count it.
    ours = all(type(part).__module__.startswith("fedskew.") for part in algorithm.method.parts)
    if small and ours and algorithm.model.blocks:
        engines["vectorised"] = _vectorised(choice, feed) * feed.steps(client)
    best = min(engines, key=lambda name: engines[name])
    return replace(choice, name=best, backend="autograd" if best == "vectorised" else backend)


def engine(choice: Choice, algorithm: Algorithm, feed: Feed, limits: Limits | None = None) -> Engine:
    """The engine of this choice, with a gate where there are limits."""
    gate = None if limits is None else Gate.of(algorithm, feed.x.shape[1:], limits)
    sides = algorithm, feed.federation, feed.training
    if choice.name == "vectorised":
        return Vectorised(*sides, choice.block, gate)
    if choice.name == "ray":
        return _ray()(*sides, choice.workers, choice.block, choice.kernels, gate)
    # A process of a pool of runs may not have children; in turn the clients give the same bits.
    if choice.name == "pool" and not _inside_worker():
        return Pool(*sides, choice.workers, choice.kernels, gate=gate)
    return Serial(*sides, gate, choice.kernels)


def _ray() -> type[Ray]:
    try:
        from fedskew.engines.ray import Ray
    except ImportError:
        raise ConfigError("engine.name = 'ray' needs Ray: pip install 'fedskew[ray]'.") from None
    return Ray


def _inside_worker() -> bool:
    return multiprocessing.current_process().daemon


def _backends(choice: Choice, feed: Feed) -> dict[Backend, float]:
    """Seconds of a step, by backend."""
    if choice.backend != "auto":
        return _steps(feed, (choice.backend,))
    times = _steps(feed, ("autograd",))
    if times["autograd"] > _SMALL or ready():
        times = _steps(feed, ("autograd", "native" if prepare("native") else "torch"))
    return times


def _typical(feed: Feed) -> int:
    trainers = sorted(feed.federation.trainers, key=feed.steps)
    return trainers[len(trainers) // 2]


def _steps(feed: Feed, backends: Sequence[Backend]) -> dict[Backend, float]:
    """Seconds of a step of a typical client, by backend."""
    algorithm, client = feed.algorithm, _typical(feed)
    message, kept = algorithm.message(algorithm.init(), 0), algorithm.fresh(client)
    data = feed.client(0, client)
    width = max(update.step.batches for phase in algorithm.phases(0) for update in phase.updates)
    plans = tuple(plan._replace(steps=plan.steps[: _STEPS * width]) for plan in data.plans)
    steps = sum(len(plan.steps) for plan in plans)

    def run(backend: Backend) -> None:
        with quarters(backend):
            algorithm.local(message, kept, data._replace(plans=plans))

    return {name: taken / max(steps, 1) for name, taken in _seconds(backends, run).items()}


def _vectorised(choice: Choice, feed: Feed) -> float:
    """Seconds of a step of one client within a block, on one epoch of some clients of typical size."""
    near = sorted(feed.federation.trainers, key=lambda k: abs(feed.steps(k) - feed.steps(_typical(feed))))
    ids = sorted(near[: choice.block])
    algorithm, training = feed.algorithm, replace(feed.training, epochs=1, min_steps=0)
    tried = Vectorised(algorithm, feed.federation, training, choice.block)
    message = algorithm.message(algorithm.init(), 0)
    steps = sum(tried.feed.steps(client) for client in ids)
    taken = _seconds(("vectorised",), lambda _: tried.exchange(message, ids, 0))
    return taken["vectorised"] / steps


def _seconds(names: Sequence[K], run: Callable[[K], object]) -> dict[K, float]:
    """The shortest time of each after one that warms up; they take turns, so that noise meets them all."""
    best = dict.fromkeys(names, math.inf)
    end = math.inf
    for trial in range(_TRIALS + 1):
        for name in names:
            start = time.perf_counter()
            run(name)
            if trial:
                best[name] = min(best[name], time.perf_counter() - start)
        if trial == 0:
            end = time.perf_counter() + _ENOUGH
        elif time.perf_counter() > end:
            break
    return best
