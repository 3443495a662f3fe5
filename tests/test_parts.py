"""What single parts promise: options, traps, and what a composition must not change."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from references import world
from references.runs import SOLVER, algorithm, finished, gap
from torch import Tensor, nn

from fedskew import losses, parts, tree
from fedskew.algorithm import Algorithm
from fedskew.data.federation import Training
from fedskew.data.partition import Partition
from fedskew.engines.choose import Choice
from fedskew.errors import ConfigError
from fedskew.evaluate import Timetable
from fedskew.experiment import Experiment
from fedskew.method import Method
from fedskew.methods import compose, preset, table
from fedskew.models.batchnorm import refreshed
from fedskew.models.module import from_module
from fedskew.parts import (
    AdaptivePower,
    AggregateThenPersonalise,
    Body,
    GroupedMean,
    Inherit,
    Mean,
    MetaSteps,
    OneVsAll,
    OneVsAllBinary,
    OwnComponents,
    OwnHead,
    OwnRows,
    Proximal,
)
from fedskew.parts.components import grow
from fedskew.phase import Context
from fedskew.step import SGD
from fedskew.tree import Tree
from fedskew.values import Batch, Model

LONE = world.SINGLE_LABEL


def network(outputs: int) -> Model:
    return from_module(lambda: world.perceptron(outputs))


def ova(**options: str) -> Method:
    """FedOVA with options of its parts."""
    network = OneVsAll(options.get("head", "sigmoid"))  # type: ignore[arg-type]
    share = OwnRows(options.get("send", "all"), options.get("single_label", "skip"))  # type: ignore[arg-type]
    weight = GroupedMean(options.get("weight", "uniform"))  # type: ignore[arg-type]
    return Method(network=network, objective=OwnComponents(), share=share, aggregate=weight)


def one_round(bound: Algorithm, method: Method, client: int) -> Tree:
    """What one client uploads in the first round."""
    engine = finished(method, rounds=1).engine
    data = engine.feed.client(0, client)
    return bound.local(bound.message(bound.init(), 0), bound.fresh(client), data)[0].shared


def test_thresholds_for_all_by_class_and_by_client_agree_where_they_say_the_same() -> None:
    clients, classes = len(world.COUNTS), world.CLASSES
    same = Method(objective=OneVsAllBinary(mp=0.6, mn=0.3, mnn=0.4))
    by_class = Method(
        objective=OneVsAllBinary(mp=(0.6,) * classes, mn=(0.3,) * classes, mnn=((0.4,) * classes,) * clients)
    )
    for engine in ("serial", "vectorised"):
        assert gap(finished(same, engine).server["shared"], finished(by_class, engine).server["shared"]) == 0


def test_a_threshold_of_one_client_acts_on_that_client_only() -> None:
    table = tuple((1.0,) if k == 3 else (0.0,) for k in range(len(world.COUNTS)))  # 0 drops all
    changed, plain = (Method(objective=OneVsAllBinary(mp=mp)) for mp in (table, 0.0))
    uploads = [{k: one_round(algorithm(m), m, k) for k in (0, 3)} for m in (changed, plain)]
    assert gap(uploads[0][0], uploads[1][0]) == 0
    assert gap(uploads[0][3], uploads[1][3]) > 1e-6


def test_a_threshold_that_is_no_probability_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"OneVsAllBinary\.mn"):
        OneVsAllBinary(mn=(0.2, 1.2))


def test_two_outputs_answer_with_their_difference() -> None:
    made = OneVsAll("softmax2").build(network, world.CLASSES)
    params = made.init(1)
    x = world.federation().data.x
    binary = network(2)
    for label in range(world.CLASSES):
        both = binary.forward({n: v[label] for n, v in params.items()}, x, False).logits
        assert torch.allclose(made.forward(params, x, False).logits[:, label], both[:, 1] - both[:, 0])
    assert np.isfinite(float(finished(ova(head="softmax2")).reply.loss.mean()))


def test_a_client_with_one_label_trains_only_if_told() -> None:
    for method, moves in ((ova(), False), (ova(single_label="positive_only"), True)):
        bound = algorithm(method)
        start = tree.apply(lambda rows: rows[[2]], bound.init()["shared"])
        assert (gap(one_round(bound, method, LONE), start) > 0) is moves


@pytest.mark.parametrize("name", ["fedova", "fedova+fedprox"])
@pytest.mark.parametrize("network", ["perceptron", "batch-norm"])
def test_components_trained_in_turn_are_those_trained_together(name: str, network: str) -> None:
    method = compose(name)
    turn, together = (
        finished(method, network=network, dtype=torch.float32, solver=replace(SOLVER, clip=clip))
        for clip in (None, 1e9)  # the norm that is clipped is that of all components
    )
    assert gap(turn.server["shared"], together.server["shared"]) == 0
    assert torch.allclose(turn.reply.loss, together.reply.loss)
    assert torch.equal(turn.reply.steps, together.reply.steps)


def test_what_is_downloaded_changes_bytes_and_nothing_else() -> None:
    every, own = ova(), ova(send="own")
    assert gap(finished(every).server["shared"], finished(own).server["shared"]) == 0
    feed, shared = finished(own).engine.feed, finished(own).server["shared"]
    assert own.share.bytes_down(shared, feed.idle(0)) * 2 == every.share.bytes_down(shared, feed.idle(0))


@pytest.mark.parametrize("name", ["fedrod", "grpfed", "fedper", "ditto", "fedphp"])
def test_who_never_took_part_has_the_servers_network_with_private_pieces_as_they_begin(name: str) -> None:
    run = finished(preset(name))
    bound, start = run.algorithm, run.algorithm.initial
    server = {**start, **run.server["shared"]}
    head, body = tree.pick(server, bound.model.head), tree.pick(start, bound.model.body)
    expected = {
        "fedrod": {**server, **{n: value + start[n] for n, value in head.items()}},
        "grpfed": {**server, **body},
        "fedper": {**server, **tree.pick(start, bound.model.head)},
    }
    found = bound.personal(run.server, None, run.engine.feed.idle(LONE))
    assert gap(found, expected.get(name, server)) == 0
    assert gap(bound.personal(run.server, None, run.engine.feed.idle(LONE), "global"), server) == 0


def test_counters_of_batch_norm_cost_no_bytes() -> None:
    entries = {"weight": torch.zeros(3, 2), "mean": torch.zeros(5), "steps": torch.tensor(7)}
    assert tree.nbytes(entries) == 4 * (6 + 5)


def test_a_class_that_appears_later_leaves_the_other_components_alone() -> None:
    run = finished(ova())
    wider = replace(run.algorithm, model=OneVsAll().build(network, world.CLASSES + 1))
    shared = grow(run.server["shared"], wider.initial)
    for name, rows in shared.items():
        assert torch.equal(rows[: world.CLASSES], run.server["shared"][name])
        assert torch.equal(rows[world.CLASSES], wider.initial[name][world.CLASSES])
    # The component starts the same whenever its class appears, and the old answers stay.
    x = world.federation().data.x.double()
    before = run.algorithm.predict(run.algorithm.overall(run.server), x)
    assert torch.equal(wider.predict(shared, x)[:, : world.CLASSES], before)


def test_a_component_nobody_holds_stays_bit_for_bit_through_training() -> None:
    bound = algorithm(ova())
    engine = finished(ova(), rounds=1).engine
    replies, cohort = engine.exchange(bound.message(bound.init(), 0), (0, 1), 0)  # classes 0, 1, 2
    after = bound.step(bound.init(), replies, cohort)["shared"]
    for name, rows in bound.init()["shared"].items():
        assert torch.equal(after[name][3], rows[3])
        assert not torch.equal(after[name][0], rows[0])


@pytest.mark.parametrize(("steps", "second"), [(1, 5), (3, 5), (50, 5), (60, 6), (120, 12)])
def test_the_released_second_stage_is_a_tenth_of_the_steps_or_five(steps: int, second: int) -> None:
    phases = algorithm(Method(schedule=AggregateThenPersonalise("released"))).phases(0)
    assert list(phases[0].cut(steps, 1)) == list(range(steps))
    assert len(phases[1].cut(steps, 1)) == second
    assert set(phases[1].cut(steps, 1)) <= set(range(steps))
    assert phases[1].updates[0].step.lr == pytest.approx(0.2 * SOLVER.lr)  # type: ignore[attr-defined]


@pytest.mark.parametrize("steps", range(1, 8))
def test_the_stages_of_map_share_the_steps(steps: int) -> None:
    first, second = algorithm(preset("map")).phases(0)
    assert [*first.cut(steps, 1), *second.cut(steps, 1)] == list(range(steps))
    assert len(first.cut(steps, 1)) == -(-steps // 2)
    assert first.emits
    assert not second.emits


def test_a_pull_acts_on_what_is_shared_only() -> None:
    shared = ("1.weight", "1.bias", "3.weight", "3.bias")
    run = finished(Method(share=Body(), terms=(Proximal(2.0),)))
    update = run.algorithm.phases(0)[0].updates[0]
    received = run.algorithm.initial
    moved = {n: v + 1 for n, v in received.items()}
    context = Context(received, {}, run.engine.feed.client(0, 0), 0, 0.1, 1.0)
    assert update.pull is not None
    force = update.pull(moved, context)
    assert set(force) == set(shared)
    assert all(torch.allclose(value, torch.full_like(value, 2.0)) for value in force.values())


def test_the_private_copy_of_ditto_learns_by_plain_softmax() -> None:
    plain, restricted = finished(preset("ditto"), rounds=1), finished(compose("fedrs+ditto"), rounds=1)
    assert gap(plain.server["shared"], restricted.server["shared"]) > 1e-6
    for client, own in plain.personal().items():
        assert gap(own, restricted.personal()[client]) == 0


def epoch_by_hand(run_model: Model, start: Tree, batches: list[Batch], lr: float, decay: float) -> Tree:
    params = {n: start[n].clone() for n in run_model.trainable}
    for batch in batches:
        leaves = {n: v.clone().requires_grad_() for n, v in params.items()}
        loss = losses.cross_entropy(run_model.forward({**start, **leaves}, batch.x, True).logits, batch.y)
        slopes = torch.autograd.grad(loss, list(leaves.values()))
        params = {n: v - lr * (g + decay * v) for (n, v), g in zip(params.items(), slopes, strict=True)}
    return params


@pytest.mark.parametrize(("name", "steps"), [("adapted", None), ("adapted_step", 1)])
def test_the_adapted_model_is_plain_steps_from_the_servers(name: str, steps: int | None) -> None:
    run = finished(preset("per-fedavg"))
    data = run.engine.feed.idle(0)
    batches = list(data.everything())
    assert sum(len(batch.y) for batch in batches) == sum(world.COUNTS[0])
    expected = epoch_by_hand(
        run.algorithm.model, run.server["shared"], batches[:steps], SOLVER.lr, SOLVER.weight_decay
    )
    for kept in (None, run.engine.kept.get(0)):
        found = run.algorithm.personal(run.server, kept, data, name)
        assert gap(found, expected) < 1e-12


@pytest.mark.parametrize(("method", "keeps"), [("fedavg", False), ("grpfed", True), ("fedrod", True)])
def test_models_that_parts_make_of_the_trained_one_need_it_kept(method: str, keeps: bool) -> None:
    """Without it they would be paired with what the server has by then."""
    plan = Experiment(method=method, timetable=Timetable(personal=0))
    assert plan.algorithm(plan.federation(plan.dataset(), 0), 0).keep_trained == keeps


@pytest.mark.parametrize(("method", "beside"), [("fedavg", False), ("map", True)])
def test_beside_an_inherited_model_the_trained_one_is_measured(method: str, beside: bool) -> None:
    (record,) = Experiment(method=method, rounds=1).fit([0]).runs[0].records
    assert "personal.accuracy" in record
    assert ("personal.trained.accuracy" in record) == beside


def test_shared_examples_are_sent_once() -> None:
    plain = Experiment(rounds=2)
    sharing = replace(plain, shared_data=0.1)
    examples = sharing.federation(sharing.dataset(), 0).handed_out
    assert examples == int(0.1 * 1437 / 20 + 0.5)
    sent = [[record["bytes.down"] for record in plan.fit([0]).runs[0].records] for plan in (plain, sharing)]
    assert [b - a for a, b in zip(*sent, strict=True)] == [4 * 64 * examples * 20, 0]


def test_a_client_without_examples_is_refused() -> None:
    data = Experiment().dataset()
    parts = (data.train[:50], data.train[:0], data.train[50:])
    with pytest.raises(ConfigError, match=r"client 1 has no training example .*novel"):
        Experiment(split=Partition(parts, parts)).fit([0])


@pytest.mark.parametrize(
    ("part", "setting", "value", "why"),
    [
        ("RestrictedSoftmax", "alpha", -0.1, "greater than or equal to 0"),
        ("RestrictedSoftmax", "alpha", 1.1, "less than or equal to 1"),
        ("Mean", "weight", "n", "'samples' or 'uniform'"),
        ("AdaptiveServer", "kind", "Adam", "'adam', 'yogi' or 'adagrad'"),
        ("Inherit", "by", "kD", "'kd' or 'mmd'"),
        ("Inherit", "temperature", 0, "greater than 0"),
        ("Inherit", "weight", math.nan, "less than or equal to 1"),
        ("MoreauEnvelope", "repeats", 0, "greater than or equal to 1"),
        ("Proximal", "mu", "much", "a valid number"),
        ("TrimmedMean", "share", 0.5, "less than 0.5"),
    ],
)
def test_a_part_refuses_a_wrong_setting_when_it_is_made(
    part: str, setting: str, value: object, why: str
) -> None:
    with pytest.raises(ConfigError, match=rf"{part}\.{setting} = .*{why}"):
        getattr(parts, part)(**{setting: value})


@pytest.mark.parametrize(("report", "where"), [("pre", 0), ("post", 1)])
def test_the_reported_loss_is_of_the_received_or_of_the_uploaded_model(report: str, where: int) -> None:
    method = Method(aggregate=AdaptivePower(report=report))  # type: ignore[arg-type]
    for engine in ("serial", "vectorised"):
        run = finished(method, engine, rounds=1)
        ids = world.federation().participants(world.SEED, 0, world.RATIO)
        for row, client in enumerate(ids):
            mine = world.federation().partition.train[client]
            x, y = world.federation().data.x[mine].double(), world.federation().data.y[mine]
            model = (run.algorithm.init()["shared"], tree.row(run.reply.shared, row))[where]
            expected = nn.functional.cross_entropy(run.algorithm.model.forward(model, x, False).logits, y)
            assert float(run.reply.extra["AdaptivePower"]["loss"][row]) == pytest.approx(float(expected))


def test_refreshed_statistics_are_the_mean_over_batches() -> None:
    model = from_module(
        lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=0.3), nn.Linear(4, 2))
    )
    params = {n: v.double() if v.is_floating_point() else v for n, v in model.init(0).items()}
    params |= {
        "1.running_mean": torch.full((4,), 9.0).double(),
        "1.running_var": torch.full((4,), 7.0).double(),
    }
    random = torch.Generator().manual_seed(0)
    batches = [Batch(torch.randn(n, 3, generator=random).double(), torch.zeros(n).long()) for n in (5, 3, 1)]
    found = refreshed(model, params, batches)
    hidden = [b.x @ params["0.weight"].T + params["0.bias"] for b in batches[:2]]  # one example: no variance
    assert torch.allclose(found["1.running_mean"], (5 * hidden[0].mean(0) + 3 * hidden[1].mean(0)) / 8)
    assert torch.allclose(found["1.running_var"], (5 * hidden[0].var(0) + 3 * hidden[1].var(0)) / 8)
    assert all(torch.equal(found[n], params[n]) for n in model.trainable)


@pytest.mark.parametrize(
    ("part", "times", "expected"),
    [
        (Inherit(rounds=2.5), 0, 0.0),
        (Inherit(rounds=2.5), 1, 0.36),
        (Inherit(rounds=2.5, whole_rounds=True), 1, 0.45),
        (Inherit(rounds=0.5, whole_rounds=True, mu_max=0.9), 1, 0.9),
        (Inherit(rounds=2.5), 50, 1.0),
        (Inherit(rounds=2.5, mu_max=0.9), 50, 0.9),
    ],
)
def test_the_schedule_of_mu(part: Inherit, times: int, expected: float) -> None:
    run = finished(Method(terms=(part,)), rounds=1)
    bound, data = run.algorithm, run.engine.feed.client(1, 0)
    kept = bound.fresh(0)
    heir = {n: v + 1 for n, v in tree.under(kept["Inherit"], "model").items()}
    kept["Inherit"] = {**tree.prefix(heir, "model"), "times": torch.tensor(float(times)).double()}
    _, after = bound.local(bound.message(bound.init(), 0), kept, data)
    for name, old in heir.items():
        mixed = (1 - expected) * after["trained"][name] + expected * old
        assert torch.allclose(after["Inherit"][f"model/{name}"], mixed)
    assert bound.told == ("Inherit.mu",)
    assert bound.tell(after, data).tolist() == [pytest.approx(expected)]
    assert bound.tell(None, data).isnan().tolist() == [True]


def test_two_heads_need_a_linear_one() -> None:
    def build() -> nn.Module:
        head = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, world.CLASSES))
        return nn.Sequential(nn.Flatten(), nn.Linear(9, 5), head)

    model = from_module(build, head=["2"])
    with pytest.raises(ConfigError, match="OwnHead adds the logits of two linear heads"):
        Algorithm(Method(terms=(OwnHead(),)), model)


@pytest.mark.parametrize(
    "name", ["ditto", "feddml", "pfedme", "fedphp", "grpfed", "fedrod", "per-fedavg", "fedavg"]
)
def test_a_part_in_a_table_brings_the_personal_model_of_its_paper(name: str) -> None:
    method = preset(name)
    bringing = [part for part in method.parts if part.offers]
    made = table({"parts": {part.name: {} for part in bringing}})
    assert made.home == method.home == (bringing[0].offers if bringing else "trained")


def test_two_parts_that_bring_a_personal_model_need_a_choice() -> None:
    terms = (Inherit(), OwnHead())
    with pytest.raises(ConfigError, match="Inherit and OwnHead both bring a model"):
        Method(terms=terms)
    assert Method(terms=terms, personal="own_heads").home == "own_heads"


@pytest.mark.parametrize(("share", "name"), [("Body", "fedper"), ("Nothing", "local"), ("Top", "lg-head")])
def test_what_stays_at_home_is_known_from_the_share(share: str, name: str) -> None:
    """Else the global model would be a trained body under an initial head."""
    plan = Experiment(rounds=2, timetable=Timetable(personal=1), engine=Choice("serial", backend="torch"))
    records = [
        plan.using(method).fit([0]).runs[0].records
        for method in (table({"parts": {share: {}}}), preset(name))
    ]
    assert str(records[0][-1]) == str(records[1][-1])  # nan is not nan
    assert "personal.downloaded" not in records[0][-1]


def test_statistics_that_stay_at_home_leave_no_global_network() -> None:
    method = table({"parts": {"Everything": {"buffers": "local"}}})
    assert finished(method, network="batch-norm").algorithm.answers_together
    assert not finished(method).algorithm.answers_together


@pytest.mark.parametrize("name", ["per-fedavg", "per-fedavg-hf", "pfedme"])
def test_every_kind_of_step_is_clipped(name: str) -> None:
    free, clipped = (finished(preset(name), solver=replace(SOLVER, clip=clip)) for clip in (None, 1e-3))
    assert gap(free.server["shared"], clipped.server["shared"]) > 1e-4


@pytest.mark.parametrize(
    ("threshold", "why"),
    [
        ((0.1, 0.2, 0.3), r"has the shape \[3\]: this is a federation of 8 clients and 4 classes"),
        (((0.1,) * 4,) * 5, r"has the shape \[5, 4\]"),
        (((0.1, 0.2), (0.3,)), "one threshold for all"),
        ((), "thresholds are probabilities"),
        (math.nan, "thresholds are probabilities"),
    ],
)
def test_thresholds_that_fit_nobody_are_refused_before_training(threshold: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        finished(Method(objective=OneVsAllBinary(mp=threshold)))


def test_a_table_puts_another_part_in_the_place_of_fedavgs() -> None:
    assert table({"preset": "map", "parts": {"Median": {}}}).aggregate.name == "Median"
    with pytest.raises(ConfigError, match="Median and Mean both fill the slot 'aggregate'"):
        table({"parts": {"Mean": {"weight": "uniform"}, "Median": {}}})


def test_a_personal_model_that_no_part_offers_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown personal model of this method 'inherited'"):
        Method(personal="inherited")


def test_meta_steps_take_whole_groups_of_batches() -> None:
    for order, width in (("first", 2), ("hessian_free", 3)):
        method = Method(schedule=MetaSteps(order=order))  # type: ignore[arg-type]
        feed = finished(method, rounds=1).engine.feed
        for client in range(len(world.COUNTS)):
            assert len(feed.client(0, client).plans[0].steps) % width == 0


def test_uniform_weights_are_a_setting() -> None:
    first, second = (finished(Method(aggregate=Mean(w)), rounds=1) for w in ("samples", "uniform"))  # type: ignore[arg-type]
    stacked: Tensor = first.reply.shared["1.weight"]
    assert torch.allclose(second.server["shared"]["1.weight"], stacked.mean(0))
    assert gap(first.server["shared"], second.server["shared"]) > 1e-6


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"rounds": -1}, r"Experiment\.rounds = -1"),
        ({"participation": 5}, r"Experiment\.participation = 5"),
        ({"split": "dirichlet"}, "should be a scheme, e.g. Dirichlet"),
        ({"engine": "serial"}, r"Experiment.engine = 'serial': should be a Choice, e.g. Choice\('serial'\)"),
        (
            {"method": parts.CalibratedSoftmax()},
            "Experiment.method = .*: should be a Method, e.g. the name of a preset",
        ),
        ({"method": "fedlcc"}, "Did you mean 'fedlc'"),
        ({"also": ("inherited",)}, "unknown personal model of this method 'inherited'"),
    ],
)
def test_an_experiment_refuses_a_wrong_setting_when_it_is_made(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Experiment(**wrong)


@pytest.mark.parametrize("make", [lambda: Training(epochs=0), lambda: SGD(lr=-1), lambda: SGD(momentum=1)])
def test_training_refuses_a_wrong_setting_when_it_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match=r"(Training|SGD)\.\w+ = "):
        make()
