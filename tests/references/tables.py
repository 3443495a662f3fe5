"""Which loop stands for which preset, which for a variant of it, and which loops hold a known mistake."""

from collections.abc import Callable
from functools import partial

from fedskew.method import Method
from references import (
    afl,
    ditto,
    fedabc,
    fedavg,
    fedaws,
    feddml,
    feddyn,
    fedlc,
    fedmmd,
    fednova,
    fedopt,
    fedova,
    fedper,
    fedphp,
    fedproto,
    fedprox,
    fedrep,
    fedrod,
    fedrs,
    grpfed,
    local,
    map,
    moon,
    perfedavg,
    pfedme,
    qffl,
    scaffold,
)
from references.common import Result, Setting
from references.runs import PRESETS, tuned

Reference = Callable[[Setting], Result]
Game, Rules = grpfed.Game, fedova.Rules

REFERENCES: dict[str, Reference] = {
    "fedavg": fedavg.run,
    "local": local.run,
    "fedabc": fedabc.run,
    "fedabc_plain": partial(fedabc.run, sigma=0.0, **fedabc.NOTHING_DROPPED),
    "fedabc_drop": partial(fedabc.run, sigma=0.0),
    "fedabc_focal": partial(fedabc.run, **fedabc.NOTHING_DROPPED),
    "fedlc": fedlc.run,
    "masked_softmax": partial(fedlc.run, tau=0.0),
    "fedova": fedova.run,
    "fedova_async": partial(fedova.run, rules=Rules(arrival=0.5)),
    "fedrs": fedrs.run,
    "fedphp": fedphp.run,
    "map": map.run,
    "map_released": map.released,
    "grpfed": grpfed.run,
    "grpfed_aggregation": grpfed.aggregation,
    "fedprox": fedprox.run,
    "scaffold": scaffold.run,
    "fednova": fednova.run,
    "feddyn": feddyn.run,
    "moon": moon.run,
    "fedmmd": fedmmd.run,
    "fedadam": partial(fedopt.run, kind="adam"),
    "fedyogi": partial(fedopt.run, kind="yogi"),
    "fedadagrad": partial(fedopt.run, kind="adagrad", b1=0.0),
    "fedavgm": partial(fedopt.run, kind="momentum", lr=1.0),
    "fedaws": fedaws.run,
    "afl": afl.run,
    "qffl": qffl.run,
    "qfedavg": qffl.qfedavg,
    "fedper": fedper.run,
    "fedrep": fedrep.run,
    "lg_fedavg": partial(fedper.lg, layers=2),
    "lg_head": partial(fedper.lg, layers=1),
    "fedproto": fedproto.run,
    "fedrod": fedrod.run,
    "ditto": ditto.run,
    "feddml": feddml.run,
    "pfedme": pfedme.run,
    "per_fedavg": perfedavg.run,
    "per_fedavg_hf": partial(perfedavg.run, hessian=True),
}


def changed(preset: str, part: str, **settings: object) -> Method:
    """A preset with other settings of one part."""
    return tuned(PRESETS[preset], part, **settings)


def joined(*presets: str) -> Method:
    """Several presets as one method."""
    first, *others = (PRESETS[name] for name in presets)
    for other in others:
        first = first + other
    return first


def with_fedlc(reference: Callable[..., Result]) -> Reference:
    return lambda s: reference(s, loss=lambda k: fedlc.calibrated(s.counts(k)))


def with_fedrs(reference: Callable[..., Result]) -> Reference:
    return lambda s: reference(s, loss=lambda k: fedrs.restricted(s.counts(k)))


VARIANTS: dict[str, tuple[Method, Reference]] = {
    "uniform weights": (changed("fedavg", "Mean", weight="uniform"), partial(fedavg.run, weight="uniform")),
    "statistics at home": (changed("fedavg", "Everything", buffers="local"), fedavg.own_statistics),
    "FedABC, other thresholds": (
        changed("fedabc", "OneVsAllBinary", mp=0.6, mn=0.4, mnn=0.55),
        partial(fedabc.run, high=0.6, low=0.4, low_missing=0.55),
    ),
    "FedABC, constant focus": (
        changed("fedabc", "OneVsAllBinary", detach_focal=True),
        partial(fedabc.run, constant_focus=True),
    ),
    "FedLC, log prior": (
        changed("fedlc", "CalibratedSoftmax", margin="log_prior"),
        partial(fedlc.run, form="log prior"),
    ),
    "FedLC, as printed": (
        changed("fedlc", "CalibratedSoftmax", denominator="others"),
        partial(fedlc.run, others=True),
    ),
    "FedOVA, weighted": (
        changed("fedova", "GroupedMean", weight="samples"),
        partial(fedova.run, rules=Rules(weight="samples")),
    ),
    "FedOVA, positives alone": (
        changed("fedova", "OwnRows", single_label="positive_only"),
        partial(fedova.run, rules=Rules(single_label="positive_only")),
    ),
    "FedOVA, two outputs": (
        changed("fedova", "OneVsAll", head="softmax2"),
        partial(fedova.run, rules=Rules(outputs=2)),
    ),
    "FedRS, soft": (changed("fedrs", "RestrictedSoftmax", mode="soft"), partial(fedrs.run, soft=True)),
    "FedPHP by MMD": (changed("fedphp", "Inherit", by="mmd"), partial(fedphp.run, by="mmd")),
    "FedPHP without T^2": (changed("fedphp", "Inherit", kd="no_T2"), partial(fedphp.run, by="no T2")),
    "GRP-FED, printed critic": (
        changed("grpfed", "GlobalRegularised", d_loss="printed"),
        partial(grpfed.run, game=Game(critic="printed")),
    ),
    "GRP-FED, nonsaturating": (
        changed("grpfed", "GlobalRegularised", r_loss="nonsaturating"),
        partial(grpfed.run, game=Game(fooling="nonsaturating")),
    ),
    "GRP-FED, received classifier": (
        changed("grpfed", "GlobalRegularised", local_classifier="received"),
        partial(grpfed.run, game=Game(classifier="received")),
    ),
    "loss of the received model": (
        changed("grpfed_aggregation", "AdaptivePower", report="pre"),
        partial(grpfed.aggregation, report="pre"),
    ),
    "loss of the sent model": (
        changed("grpfed_aggregation", "AdaptivePower", report="post"),
        partial(grpfed.aggregation, report="post"),
    ),
    "SCAFFOLD with momentum": (
        changed("scaffold", "ControlVariates", momentum_correction=True),
        partial(scaffold.run, momentum=0.9, correction=True),
    ),
    "FedDyn, strong": (changed("feddyn", "DynamicPull", alpha=0.5), partial(feddyn.run, a=0.5)),
    "FedDML, other weights": (
        changed("feddml", "MutualLearning", weight=0.2, private_weight=0.9),
        partial(feddml.run, a=0.2, b=0.9),
    ),
    "pFedMe, half way": (changed("pfedme", "Mix", beta=0.5), partial(pfedme.run, beta=0.5)),
    "FedProto, uniform": (
        changed("fedproto", "Prototypes", average="uniform"),
        partial(fedproto.run, average="uniform"),
    ),
    "FedProto, mean of dimensions": (
        changed("fedproto", "Prototypes", distance="mean"),
        partial(fedproto.run, mean_of_dimensions=True),
    ),
    "FedLC + FedProx": (joined("fedlc", "fedprox"), with_fedlc(fedprox.run)),
    "FedLC + SCAFFOLD": (joined("fedlc", "scaffold"), with_fedlc(scaffold.run)),
    "FedLC + FedNova": (joined("fedlc", "fednova"), with_fedlc(fednova.run)),
    "FedRS + SCAFFOLD": (joined("fedrs", "scaffold"), with_fedrs(scaffold.run)),
    "MAP + FedPer": (joined("map", "fedper"), partial(map.run, own_head=True)),
    "FedRS + Ditto": (joined("fedrs", "ditto"), with_fedrs(ditto.run)),
}

TRAPS: dict[str, tuple[Method, Reference]] = {
    "uniform weights": (PRESETS["fedavg"], partial(fedavg.run, weight="uniform")),
    "momentum survives rounds": (PRESETS["fedavg"], fedavg.momentum_survives),
    "no proximal term": (PRESETS["fedprox"], fedavg.run),
    "changes of c_k over participants": (
        PRESETS["scaffold"],
        partial(scaffold.run, divide_by="participants"),
    ),
    "momentum in SCAFFOLD": (PRESETS["scaffold"], partial(scaffold.run, momentum=0.9)),
    "drifts over participants": (PRESETS["feddyn"], partial(feddyn.run, divide_by="participants")),
    "heads leak through the average": (PRESETS["fedrep"], partial(fedrep.run, head_leaks=True)),
    "FedRep trains all layers together": (PRESETS["fedrep"], fedper.run),
    "classes of the batch": (
        changed("fedabc", "OneVsAllBinary", mn=0.2, mnn=0.6),
        partial(fedabc.run, low=0.2, low_missing=0.6, class_sets="batch"),
    ),
    "mean over classes": (PRESETS["fedabc"], partial(fedabc.run, over_classes="mean")),
    "nothing is easy": (PRESETS["fedabc"], partial(fedabc.run, **fedabc.NOTHING_DROPPED)),
    "missing classes stay in the sum": (PRESETS["fedlc"], partial(fedlc.run, missing="in")),
    "counts of all clients": (PRESETS["fedlc"], partial(fedlc.run, counts="all")),
    "margins do not matter": (PRESETS["fedlc"], partial(fedlc.run, tau=0.0)),
    "clients without the class count": (
        PRESETS["fedova"],
        partial(fedova.run, rules=Rules(everybody_counts=True)),
    ),
    "untouched components are reset": (
        PRESETS["fedova"],
        partial(fedova.run, rules=Rules(reset_untouched=True)),
    ),
    "alpha = 1": (PRESETS["fedrs"], partial(fedrs.run, alpha=1.0)),
    "missing logits removed, not scaled": (PRESETS["fedrs"], partial(fedlc.run, tau=0.0)),
    "alpha = 0 removes": (changed("fedrs", "RestrictedSoftmax", alpha=0.0), partial(fedlc.run, tau=0.0)),
    "a first lesson by nobody": (PRESETS["fedphp"], partial(fedphp.run, first_lesson=True)),
    "z counts this participation": (PRESETS["fedphp"], partial(fedphp.run, count_first=True)),
    "the second stage is uploaded": (PRESETS["map"], partial(map.run, uploads_stage_2=True)),
    "an untrained teacher": (PRESETS["map"], partial(map.run, first_lesson=True)),
    "divergence the wrong way round": (PRESETS["map"], partial(map.run, backwards=True)),
    "weights before q moves": (PRESETS["grpfed"], partial(grpfed.run, weigh_before=True)),
    "the local branch trains the classifier": (
        PRESETS["grpfed"],
        partial(grpfed.run, game=Game(classifier_learns=True)),
    ),
    "a new critic every round": (PRESETS["grpfed"], partial(grpfed.run, game=Game(forgets="critic"))),
    "the download replaces the extractor": (
        PRESETS["grpfed"],
        partial(grpfed.run, game=Game(forgets="extractor")),
    ),
    "steps without momentum": (PRESETS["fednova"], partial(fednova.run, momentum_counts=False)),
    "bias correction": (PRESETS["fedadam"], partial(fedopt.run, kind="adam", unbias=True)),
    "normalised, not projected": (PRESETS["afl"], partial(afl.run, project=False)),
    "near and far exchanged": (PRESETS["moon"], partial(moon.run, swapped=True)),
    "both networks step at once": (PRESETS["feddml"], partial(feddml.run, at_once=True)),
    "a lesson the wrong way round": (PRESETS["feddml"], partial(feddml.run, backwards=True)),
    "theta starts anew with every batch": (PRESETS["pfedme"], partial(pfedme.run, reset=True)),
    "both gradients on one batch": (PRESETS["per_fedavg"], partial(perfedavg.run, same_batch=True)),
    "prototypes by clients": (PRESETS["fedproto"], partial(fedproto.run, average="uniform")),
    "a head that is not balanced": (PRESETS["fedrod"], partial(fedrod.run, gamma=0.0)),
}
