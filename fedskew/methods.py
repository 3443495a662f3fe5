"""The published algorithms, each as its parts. The names of this module are the presets."""

from fedskew.method import Method
from fedskew.parts.aggregates import AdaptivePower, GroupedMean, Mean
from fedskew.parts.networks import OneVsAll
from fedskew.parts.objectives import OwnComponents, RestrictedSoftmax
from fedskew.parts.schedules import AggregateThenPersonalise, GlobalRegularised, HeadThenBody
from fedskew.parts.shares import Body, Nothing, OwnRows
from fedskew.parts.terms import ControlVariates, Inherit, Proximal

fedavg = Method()
fedprox = Method(terms=(Proximal(),))
scaffold = Method(terms=(ControlVariates(),), aggregate=Mean("uniform"))
local = Method(share=Nothing(), overall="ensemble")
fedrep = Method(share=Body(), schedule=HeadThenBody(), overall="ensemble")
fedova = Method(
    network=OneVsAll(), objective=OwnComponents(), share=OwnRows(), aggregate=GroupedMean()
)
fedrs = Method(objective=RestrictedSoftmax())
map = Method(
    objective=RestrictedSoftmax(),
    terms=(Inherit(),),
    schedule=AggregateThenPersonalise(),
    aggregate=Mean("uniform"),
    personal="inherited",
)
grpfed = Method(schedule=GlobalRegularised(), aggregate=AdaptivePower(), personal="local")
