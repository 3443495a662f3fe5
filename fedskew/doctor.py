"""Warnings before a run: where a method can do nothing, or is known to be unstable, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from fedskew import losses, parts
from fedskew.data.federation import Training
from fedskew.method import Method
from fedskew.step import SGD


class Case(NamedTuple):
    """What is known before a run."""

    method: Method
    counts: Tensor  # [K, C] training examples of each class at each client
    training: Training
    solver: SGD

    @property
    def held(self) -> Tensor:
        """[K] how many classes each client holds."""
        return (self.counts > 0).sum(1)

    def pairs(self) -> tuple[int, int]:
        """How many pairs there are of classes that somebody holds, and how many of them meet in no client."""
        held = (self.counts > 0).double()
        known = int((held.sum(0) > 0).sum())
        met = int(((held.T @ held) > 0).triu(1).sum())
        every = known * (known - 1) // 2
        return every, every - met

    @property
    def batches(self) -> Tensor:
        """[K] how many batches each client has in a round."""
        per_epoch = (-(-self.counts.sum(1) // self.training.batch)).tolist()
        return torch.tensor([count and count * self.training.epochs_for(count) for count in per_epoch])


def warnings(method: Method, counts: Tensor, training: Training, solver: SGD) -> list[str]:
    """What a person should know before this method runs on these clients."""
    case = Case(method, counts, training, solver)
    return [warning for check in CHECKS for warning in check(case)]


def _classes(case: Case) -> Iterator[str]:
    nobody = (case.counts.sum(0) == 0).nonzero()[:, 0].tolist()
    if nobody:
        yield f"no client holds an example of class {', '.join(map(str, nobody))}: nobody can learn it."


def _calibration(case: Case) -> Iterator[str]:
    goal = case.method.objective
    if not isinstance(goal, parts.CalibratedSoftmax | parts.BalancedSoftmax):
        return
    masks = not (isinstance(goal, parts.CalibratedSoftmax) and goal.missing == "clip")
    alone = int((case.held == 1).sum())
    if alone and masks:
        yield (
            f"{goal.name}: {alone} of {len(case.counts)} clients hold one label. Among their own classes "
            "there is no other, so their loss is 0 and they send back the model they received."
        )
    pairs, apart = case.pairs()
    if masks and 4 * apart > pairs:
        yield (
            f"{goal.name}: {apart} of {pairs} pairs of classes meet in no client, and a loss over a client's "
            "own classes never tells them apart. Losses over all classes do: FedAvg, FedRS, and FedOVA."
        )
    if isinstance(goal, parts.CalibratedSoftmax) and int(case.held.min()) == case.counts.shape[1]:
        margins = losses.fedlc_margins(case.counts.double(), goal.tau, goal.margin)
        if float((margins.amax(1) - margins.amin(1)).max()) < 0.05:
            yield (
                "CalibratedSoftmax: every client holds every class, in numbers so alike that margins differ "
                "by less than 0.05: this is FedAvg in all but name. FedLC needs label skew."
            )


def _restriction(case: Case) -> Iterator[str]:
    goal = case.method.objective
    if not isinstance(goal, parts.RestrictedSoftmax):
        return
    if goal.alpha == 1:
        yield "RestrictedSoftmax: alpha = 1 restricts nothing: this is plain softmax."
    elif goal.mode == "hard" and int(case.held.min()) == case.counts.shape[1]:
        yield "RestrictedSoftmax: no client misses a class: nothing to restrict, this is plain softmax."


def _components(case: Case) -> Iterator[str]:
    share = case.method.share
    alone = case.held == 1
    if not isinstance(share, parts.OwnRows) or not bool(alone.any()):
        return
    if share.single_label == "positive_only":
        yield (
            f"OwnRows: {int(alone.sum())} clients hold one label and train its component on positives only, "
            "which pulls it towards saying yes to everything."
        )
        return
    lost = ((case.counts[~alone].sum(0) == 0) & (case.counts.sum(0) > 0)).nonzero()[:, 0].tolist()
    more = f" Nobody else holds class {', '.join(map(str, lost))}, which stays untrained." if lost else ""
    yield (
        f"OwnRows: {int(alone.sum())} of {len(alone)} clients hold one label; a yes-or-no question needs "
        f"both answers, so they train nothing (FedOVA).{more}"
    )


def _control(case: Case) -> Iterator[str]:
    rho = case.solver.momentum
    for term in case.method.terms:
        if isinstance(term, parts.ControlVariates) and rho:
            if term.momentum_correction:
                yield "ControlVariates: under momentum, c_k from effective steps is an approximation."
            else:
                yield (
                    f"ControlVariates: SCAFFOLD's steps are without momentum: train.momentum = {rho:g} does "
                    f"not act on them and they are up to {1 / (1 - rho):.3g} times shorter than other "
                    "methods'. Raise train.lr for it, or set momentum_correction."
                )


def _schedule(case: Case) -> Iterator[str]:
    rule, few = case.method.schedule, int(case.batches.min())
    if isinstance(rule, parts.HeadThenBody) and case.training.epochs == 1:
        yield "HeadThenBody: with one epoch the head is never trained (FedRep); use 2 or more train.epochs."
    if isinstance(rule, parts.AggregateThenPersonalise) and rule.mode == "paper" and few < 2:
        yield "AggregateThenPersonalise: a client with a single batch a round has no second stage."
    if isinstance(rule, parts.MetaSteps) and few < (2 if rule.order == "first" else 3):
        yield "MetaSteps: a client with fewer batches a round than one step needs sees the same one again."
    if isinstance(rule, parts.MoreauEnvelope):
        for what, rate in (("train.lr", case.solver.lr), ("MoreauEnvelope.lr", rule.lr)):
            length = rate * rule.strength
            if length > 1:
                yield f"MoreauEnvelope: {what} x strength = {length:.3g} is more than 1: it overshoots."


def _fairness(case: Case) -> Iterator[str]:
    rule = case.method.aggregate
    if isinstance(rule, parts.FairDescent) and rule.q >= 5:
        yield (
            f"FairDescent: at q = {rule.q:g} the original q-FedAvg divides by a curvature so large that the "
            "model hardly moves: it will look untrained. GRP-FED compares with the other form, `qffl`."
        )
    if isinstance(rule, parts.AdaptivePower) and rule.q >= 5:
        yield (
            f"AdaptivePower: at q = {rule.q:g} a loss twice as large weighs {2**rule.q:,.0f} times as much: "
            "the worst client nearly decides alone."
        )
    if isinstance(rule, parts.Normalised) and len(set(case.batches.tolist())) == 1:
        yield "Normalised: all clients take the same number of steps, so FedNova is FedAvg."


def _rates(case: Case) -> Iterator[str]:
    lr, rho = case.solver.lr, case.solver.momentum
    if lr / (1 - rho) >= 1:
        yield f"train.lr = {lr:g} and momentum {rho:g} move like a rate of {lr / (1 - rho):.3g}: may diverge."
    for term in case.method.terms:
        if isinstance(term, parts.Proximal) and term.mu * lr / (1 - rho) >= 1:
            yield f"Proximal: mu x rate = {term.mu * lr / (1 - rho):.3g}: the pull alone overshoots."


CHECKS: tuple[Callable[[Case], Iterator[str]], ...] = (
    *(_classes, _calibration, _restriction, _components),
    *(_control, _schedule, _fairness, _rates),
)
