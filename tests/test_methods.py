"""Presets by name, compositions, and methods from tables; what is wrong is named with the choices."""

import pytest

from fedskew import methods, parts
from fedskew.catalogue import METHODS
from fedskew.errors import ConfigError
from fedskew.method import Method
from fedskew.methods import compose, preset, presets, table
from fedskew.part import Part
from fedskew.parts import CalibratedSoftmax, ControlVariates, Mean, OneVsAllBinary, Proximal


def test_every_preset_is_in_the_catalogue_and_the_other_way_round() -> None:
    assert list(METHODS) == list(presets())
    assert all(entry.about and (entry.paper or name == "local") for name, entry in METHODS.items())


def test_public_names_have_hyphens_and_both_forms_are_understood() -> None:
    assert preset("lg-fedavg") == preset("lg_fedavg") == methods.lg_fedavg
    assert not any("_" in name for name in presets())


def test_the_registry_holds_every_part() -> None:
    def final(kind: type[Part]) -> set[str]:
        below = kind.__subclasses__()
        return {name for sub in below for name in final(sub)} if below else {kind.__name__}

    ours = {name for name in final(Part) if name in vars(parts)}
    assert ours == set(parts.__all__)
    assert final(Part) == ours


def test_every_part_says_what_it_is() -> None:
    for name in parts.__all__:
        text = getattr(parts, name).__doc__
        assert text, name
        assert text.split("\n\n")[0].rstrip('" ').endswith("."), name


def test_compositions_fill_the_slots_of_both() -> None:
    made = compose("fedlc+scaffold+fedadam")
    assert made.objective == CalibratedSoftmax()
    assert made.terms == (ControlVariates(),)
    assert made.aggregate == Mean("uniform")
    assert made.server.name == "AdaptiveServer"
    assert compose("fedavg+fedlc") == compose("fedlc + fedavg") == preset("fedlc")
    with pytest.raises(ConfigError, match="fedlc\\+fedprox\\+fedlc: a method is named twice"):
        compose("fedlc+fedprox+fedlc")


def test_map_is_its_two_ancestors_and_a_schedule() -> None:
    assert preset("map").terms == preset("fedphp").terms
    assert preset("map").objective == preset("fedrs").objective
    assert preset("map").home == "inherited"


def test_a_table_changes_settings_of_a_part_or_adds_one() -> None:
    made = table({"preset": "fedlc", "parts": {"Proximal": {"mu": 0.1}, "CalibratedSoftmax": {"tau": 2}}})
    assert made == Method(objective=CalibratedSoftmax(tau=2.0), terms=(Proximal(0.1),))
    assert table({"preset": "map", "parts": {"Inherit": {"by": "mmd"}}}).terms[0].weight == 0.1  # type: ignore[attr-defined]
    assert table({"parts": {"Mean": {"weight": "uniform"}}}) == Method(aggregate=Mean("uniform"))
    assert table({}) == Method()


def test_a_table_can_hold_parts_that_only_fit_together() -> None:
    together = {name: {} for name in ("OneVsAll", "OwnComponents", "OwnRows", "GroupedMean")}
    assert table({"parts": together}) == preset("fedova")


def test_lists_of_a_file_become_tuples() -> None:
    made = table({"preset": "fedabc", "parts": {"OneVsAllBinary": {"mp": [0.5, 0.6], "mn": [[0.1], [0.2]]}}})
    assert made.objective == OneVsAllBinary(mp=(0.5, 0.6), mn=((0.1,), (0.2,)))
    hash(made)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "fedlcc"}, "unknown method 'fedlcc'. Did you mean 'fedlc'"),
        ({"preset": "fedlc+nothing"}, "unknown method 'nothing'"),
        ({"preset": 3}, "`preset` is a name"),
        ({"present": "fedlc"}, "unknown setting of a method 'present'. Did you mean 'preset'"),
        ({"parts": {"Proxima": {}}}, "unknown part 'Proxima'. Did you mean 'Proximal'"),
        ({"parts": {"Method": {}}}, "unknown part 'Method'"),
        ({"parts": {"Proximal": {"my": 1}}}, "unknown setting of Proximal 'my'"),
        ({"parts": {"Proximal": {"needs": []}}}, "unknown setting of Proximal 'needs'"),
        ({"parts": {"Proximal": {"mu": "much"}}}, r"Proximal\.mu = 'much'"),
        ({"parts": {"Proximal": 0.1}}, "give its settings as a table"),
        ({"parts": {"RestrictedSoftmax": {"mode": "firm"}}}, "should be 'hard' or 'soft'"),
        (
            {"preset": "fedlc", "parts": {"RestrictedSoftmax": {}}},
            "RestrictedSoftmax and CalibratedSoftmax both fill",
        ),
        (
            {"preset": "local", "parts": {"Proximal": {}}},
            "Proximal needs something of the network to be shared",
        ),
        (
            {"parts": {"OwnComponents": {}, "OneVsAll": {}}},
            "OneVsAll has a network of its own for every class",
        ),
        ({"parts": {"GroupedMean": {}}}, "GroupedMean averages the components"),
        ({"parts": {"OwnRows": {}}}, "OwnRows sends the components"),
        ({"parts": {"HeadThenBody": {}}}, "leaves nothing private"),
        ({"parts": {"DynamicPull": {}}}, "use the aggregate DynamicMean"),
        ({"parts": {"DynamicMean": {}}}, "add it"),
        ({"preset": "feddyn", "parts": {"ControlVariates": {}}}, "together, twice"),
        ({"parts": {"GlobalRegularised": {}, "Inherit": {}}}, "keep one of the two"),
    ],
)
def test_a_mistake_names_what_and_why(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        table(settings)
