"""What methods are made of. The names of this module are the registry: a table `{ Proximal = { mu = 0.1 } }`
in a configuration is `parts.Proximal(mu=0.1)`.
"""

from fedskew.parts.adversarial import GlobalRegularised
from fedskew.parts.aggregates import DynamicMean, Mean, Normalised
from fedskew.parts.components import AsArrived, GroupedMean
from fedskew.parts.copies import MoreauEnvelope, MutualLearning, PrivateCopy
from fedskew.parts.fair import AdaptivePower, Agnostic, FairDescent
from fedskew.parts.networks import OneVsAll, Plain
from fedskew.parts.objectives import (
    BalancedSoftmax,
    CalibratedSoftmax,
    CrossEntropy,
    OneVsAllBinary,
    OwnComponents,
    RestrictedSoftmax,
)
from fedskew.parts.personal import Inherit, OwnHead
from fedskew.parts.prototypes import Prototypes
from fedskew.parts.robust import ClippedMean, Median, MultiKrum, TrimmedMean
from fedskew.parts.schedules import AggregateThenPersonalise, HeadThenBody, MetaSteps, OnePhase
from fedskew.parts.servers import AdaptiveServer, Mix, Replace, ServerMomentum, SpreadHead
from fedskew.parts.shares import Body, Everything, Nothing, OwnRows, Top
from fedskew.parts.terms import Contrast, ControlVariates, DynamicPull, FeatureMatch, Proximal

__all__ = [
    "AdaptivePower",
    "AdaptiveServer",
    "AggregateThenPersonalise",
    "Agnostic",
    "AsArrived",
    "BalancedSoftmax",
    "Body",
    "CalibratedSoftmax",
    "ClippedMean",
    "Contrast",
    "ControlVariates",
    "CrossEntropy",
    "DynamicMean",
    "DynamicPull",
    "Everything",
    "FairDescent",
    "FeatureMatch",
    "GlobalRegularised",
    "GroupedMean",
    "HeadThenBody",
    "Inherit",
    "Mean",
    "Median",
    "MetaSteps",
    "Mix",
    "MoreauEnvelope",
    "MultiKrum",
    "MutualLearning",
    "Normalised",
    "Nothing",
    "OnePhase",
    "OneVsAll",
    "OneVsAllBinary",
    "OwnComponents",
    "OwnHead",
    "OwnRows",
    "Plain",
    "PrivateCopy",
    "Prototypes",
    "Proximal",
    "Replace",
    "RestrictedSoftmax",
    "ServerMomentum",
    "SpreadHead",
    "Top",
    "TrimmedMean",
]
