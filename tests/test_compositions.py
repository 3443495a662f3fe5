"""Every pair of presets either runs, alike on both engines, or is refused at construction with a reason."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from fedskew import keys
from fedskew.algorithm import Algorithm
from fedskew.data.dataset import Dataset
from fedskew.data.federation import Federation, Training
from fedskew.data.partition import Partition
from fedskew.engines.serial import Serial
from fedskew.engines.vectorised import Vectorised
from fedskew.errors import ConfigError
from fedskew.method import Method
from fedskew.methods import compose, presets
from fedskew.models.module import from_module
from fedskew.step import SGD
from fedskew.tree import State, Tree
from fedskew.values import Model

COUNTS = ((3, 3, 0), (0, 2, 5), (4, 0, 0))  # unequal, and one client with a single label
ROUNDS = ((0, 1, 2), (1, 2))  # client 0 takes part once
NAMED = (
    *("fedlc+scaffold", "fedlc+fedprox", "fedlc+fednova", "fedrs+scaffold", "map+scaffold", "fedabc+fedadam"),
    *("fedlc+fedphp", "fedlc+grpfed-aggregation", "fedabc+grpfed-aggregation", "fedrs+grpfed-aggregation"),
    *("fedrep+fedprox", "fedrep+scaffold", "fedrs+ditto", "fedova+fedprox", "grpfed+fedabc", "fedlc+pfedme"),
    *("map+fedavgm", "feddyn+fedlc", "moon+fedrs", "fedproto+fedphp", "fedper+ditto", "fedaws+fedabc"),
    *("feddml+fedlc", "map+fednova", "scaffold+grpfed-aggregation"),
)
PAIRS = ["+".join(pair) for pair in combinations(presets(), 2)]


@cache
def federation() -> Federation:
    random = keys.stream("partition", 3)
    labels = np.array([label for row in COUNTS for label, n in enumerate(row) for _ in range(n)])
    x = torch.from_numpy(random.normal(size=(len(labels), 4)) + labels[:, None]).float()
    train = tuple(np.split(np.arange(len(labels)), np.cumsum([sum(row) for row in COUNTS])[:-1]))
    none = np.array([], dtype=np.int64)
    data = Dataset("pairs", x, torch.from_numpy(labels), np.arange(len(labels)), none, ("a", "b", "c"))
    return Federation(data, Partition(train, (none,) * len(COUNTS)))


def network(outputs: int) -> Model:
    return from_module(
        lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, outputs))
    )


def run(method: Method, kind: type[Serial] | type[Vectorised]) -> tuple[State, dict[int, Tree], torch.Tensor]:
    """The server, every client's own model and the last losses."""
    model = method.network.build(network, 3)
    bound = Algorithm(method, model, SGD(0.1, 0.5, 0.01), len(COUNTS), 2.0, dtype=torch.float64)
    engine = kind(bound, federation(), Training(epochs=2, batch=4))
    server = bound.init()
    for number, ids in enumerate(ROUNDS):
        replies, cohort = engine.exchange(bound.message(server, number), ids, number)
        server = bound.step(server, replies, cohort)
    own = {k: bound.personal(server, engine.kept[k], engine.feed.idle(k)) for k in range(len(COUNTS))}
    return server, own, replies.loss


def flat(state: State, own: dict[int, Tree], losses: torch.Tensor) -> Tree:
    trees = {**state, **{f"client {k}": tree for k, tree in own.items()}, "losses": {"all": losses}}
    return {f"{place}/{n}": v.double() for place, tree in trees.items() for n, v in tree.items()}


def refusal(names: str) -> str | None:
    """Why the composition is refused, if it is."""
    try:
        compose(names)
    except ConfigError as error:
        return str(error)
    return None


def check(names: str) -> str:
    """Says "refused" or "ran"; anything else fails."""
    reason = refusal(names)
    if reason is not None:
        assert reason.startswith(f"{names}: ")
        assert len(reason) > len(names) + 40, f"no reason: {reason}"
        return "refused"
    method = compose(names)
    one, other = flat(*run(method, Serial)), flat(*run(method, Vectorised))
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert bool(torch.isfinite(value).all()), f"{names}: {name} is not finite"
        assert torch.allclose(value, other[name], rtol=0, atol=1e-8), (
            f"{names}: {name} differs between engines"
        )
    return "ran"


@pytest.mark.parametrize("names", NAMED)
def test_a_composition_that_makes_sense_runs_alike_on_both_engines(names: str) -> None:
    assert check(names) == "ran"


@pytest.mark.parametrize("names", PAIRS[::23])
def test_some_pairs(names: str) -> None:
    check(names)


@pytest.mark.slow
@pytest.mark.parametrize("names", PAIRS)
def test_all_pairs(names: str) -> None:
    check(names)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("fedlc+fedrs", "both fill the slot 'objective'"),
        ("scaffold+local", "ControlVariates needs something of the network to be shared"),
        ("scaffold+pfedme", "moves it by another rule"),
        ("fedova+fedadam", "components that nobody trained"),
        ("fedova+fedphp", "Inherit deals with one network"),
        ("fedrod+fedper", "OwnHead needs the head"),
        ("moon+lg-fedavg", "Contrast needs the body"),
        ("grpfed+fedper", "GlobalRegularised needs the head"),
        ("feddyn+fedadam", "DynamicMean sets the server's model itself"),
        ("pfedme+fedprox", "it follows the private network"),
        ("qfedavg+per-fedavg", "reads the curvature"),
        ("fedphp+ditto", "both bring a model to predict with at home"),
    ],
)
def test_a_composition_that_means_nothing_says_why(names: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose(names)


@pytest.mark.parametrize("other", ["moon", "fedmmd", "fedproto"])
def test_the_order_of_names_does_not_matter_to_a_term_that_weighs_the_loss(other: str) -> None:
    one, two = (flat(*run(compose(names), Serial)) for names in (f"fedphp+{other}", f"{other}+fedphp"))
    assert all(torch.allclose(value, two[name], rtol=0, atol=1e-12) for name, value in one.items())
