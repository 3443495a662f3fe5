"""What is evaluated: nothing twice, and numbers of the clients' own state in the record."""

import math

import pytest
import torch

from fedskew import metrics
from fedskew.algorithm import Algorithm
from fedskew.data.partition import Labels
from fedskew.engines.choose import Choice
from fedskew.examine import Exam
from fedskew.experiment import Experiment

PLAN = Experiment(split=Labels(per_client=2, clients=5), rounds=4, participation=0.4, engine=Choice("serial"))


def test_a_network_that_clients_share_answers_everybodys_test_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    inner = Algorithm.predict

    def counting(self: Algorithm, params: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        return inner(self, params, x)

    with PLAN.session(0) as session:
        server = next(iter(session.rounds())).round.server
        algorithm, data = session.feed.algorithm, session.feed.federation.data
        test = torch.from_numpy(data.test)
        answers = metrics.predict(algorithm.predict(algorithm.overall(server), session.feed.x[test]))
        expected = metrics.confusion(answers, data.y[test], session.feed.federation.classes)
        monkeypatch.setattr(Algorithm, "predict", counting)
        for mark in session.engine.examine(server, range(5), Exam(("global",))):
            assert mark.whole is not None
            assert torch.equal(mark.whole[0], expected)
        assert sizes.count(len(test)) == 1
        session.engine.examine(server, range(5), Exam(("trained",)))
        assert sizes.count(len(test)) == 1 + 2 + 1  # two took part, three others have the server's network


def test_the_mean_mu_of_inheritance_is_in_the_record() -> None:
    taken = [0] * 5
    for record in PLAN.using("fedphp").fit([0]).runs[0].records:
        for client in record["participants"]:
            taken[client] += 1
        mu = [min(0.9 * (times - 1) / (0.4 * 4), 1.0) for times in taken if times]
        if "personal.accuracy" in record:
            assert record["client.Inherit.mu"] == pytest.approx(math.fsum(mu) / len(mu))
    assert max(mu) > 0
