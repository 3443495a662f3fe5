"""The published algorithms, each as its parts. The presets are the names of this module."""

from collections.abc import Mapping

from fedskew.errors import ConfigError, unknown
from fedskew.method import Method
from fedskew.parts import (
    AdaptivePower,
    AdaptiveServer,
    AggregateThenPersonalise,
    Agnostic,
    AsArrived,
    BalancedSoftmax,
    Body,
    CalibratedSoftmax,
    Contrast,
    ControlVariates,
    DynamicMean,
    DynamicPull,
    FairDescent,
    FeatureMatch,
    GlobalRegularised,
    GroupedMean,
    HeadThenBody,
    Inherit,
    Mean,
    MetaSteps,
    Mix,
    MoreauEnvelope,
    MutualLearning,
    Normalised,
    Nothing,
    OneVsAll,
    OneVsAllBinary,
    OwnComponents,
    OwnHead,
    OwnRows,
    PrivateCopy,
    Prototypes,
    Proximal,
    RestrictedSoftmax,
    ServerMomentum,
    SpreadHead,
    Top,
)
from fedskew.slots import fill

fedavg = Method()
local = Method(share=Nothing())

fedabc = Method(objective=OneVsAllBinary())
fedabc_plain = Method(objective=OneVsAllBinary(sigma=0.0, drop=False))
fedabc_drop = Method(objective=OneVsAllBinary(sigma=0.0))
fedabc_focal = Method(objective=OneVsAllBinary(drop=False))

fedlc = Method(objective=CalibratedSoftmax())
masked_softmax = Method(objective=CalibratedSoftmax(tau=0.0))

fedova = Method(network=OneVsAll(), objective=OwnComponents(), share=OwnRows(), aggregate=GroupedMean())
fedova_async = Method(network=OneVsAll(), objective=OwnComponents(), share=OwnRows(), aggregate=AsArrived())

fedrs = Method(objective=RestrictedSoftmax())
fedphp = Method(terms=(Inherit(),))
map = fedrs + fedphp + Method(schedule=AggregateThenPersonalise(), aggregate=Mean("uniform"))
map_released = Method(
    objective=RestrictedSoftmax(),
    terms=(Inherit(kd="author", mu_max=0.9, whole_rounds=True, bn_refresh=True),),
    schedule=AggregateThenPersonalise("released"),
)

grpfed = Method(schedule=GlobalRegularised(), aggregate=AdaptivePower())
grpfed_aggregation = Method(aggregate=AdaptivePower())

fedprox = Method(terms=(Proximal(),))
scaffold = Method(terms=(ControlVariates(),), aggregate=Mean("uniform"))
fednova = Method(aggregate=Normalised())
feddyn = Method(terms=(DynamicPull(),), aggregate=DynamicMean())
moon = Method(terms=(Contrast(),))
fedmmd = Method(terms=(FeatureMatch(),))

fedadam = Method(server=AdaptiveServer())
fedyogi = Method(server=AdaptiveServer("yogi"))
fedadagrad = Method(server=AdaptiveServer("adagrad", b1=0.0))
fedavgm = Method(server=ServerMomentum())
fedaws = Method(server=SpreadHead())

afl = Method(aggregate=Agnostic())
qffl = Method(aggregate=AdaptivePower(rate=0.0))
qfedavg = Method(aggregate=FairDescent())

fedper = Method(share=Body())
fedrep = Method(share=Body(), schedule=HeadThenBody())
lg_fedavg = Method(share=Top(layers=2))
lg_head = Method(share=Top())
fedproto = Method(share=Nothing(), terms=(Prototypes(),))
fedrod = Method(objective=BalancedSoftmax(), terms=(OwnHead(),))
ditto = Method(schedule=PrivateCopy())
feddml = Method(schedule=MutualLearning())
pfedme = Method(schedule=MoreauEnvelope(), server=Mix())
per_fedavg = Method(schedule=MetaSteps())
per_fedavg_hf = Method(schedule=MetaSteps(order="hessian_free"))


def presets() -> dict[str, Method]:
    """Every preset by its public name."""
    return {name.replace("_", "-"): value for name, value in globals().items() if isinstance(value, Method)}


def preset(name: str) -> Method:
    """The preset of this name."""
    known = presets()
    if name.replace("_", "-") not in known:
        raise ConfigError(unknown("method", name, known))
    return known[name.replace("_", "-")]


def compose(names: str) -> Method:
    """Several presets in one, e.g. "fedlc+scaffold"."""
    first, *others = (name.strip() for name in names.split("+"))
    method = preset(first)
    if len({first, *others}) <= len(others):
        raise ConfigError(f"{names}: a method is named twice. Name every one once.")
    for other in others:
        try:
            method = method + preset(other)
        except ConfigError as error:
            raise ConfigError(f"{names}: {error}") from None
    return method


def table(settings: Mapping[str, object]) -> Method:
    """A method from a table: `preset`, and `parts` by name with their settings."""
    for key in settings:
        if key not in ("preset", "parts"):
            raise ConfigError(unknown("setting of a method", key, ("preset", "parts")))
    name, parts = settings.get("preset", "fedavg"), settings.get("parts", {})
    if not isinstance(name, str) or not isinstance(parts, Mapping):
        raise ConfigError(f"{settings}: `preset` is a name, `parts` a table of tables.")
    return fill(compose(name), parts)
