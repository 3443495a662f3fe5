"""The command advise, and the advice in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console

if TYPE_CHECKING:
    from fedskew.advise import Advice, Suffering
    from fedskew.evidence import Finding

SHOWN = 10  # classes


@app.command()
def advise(
    counts: Annotated[
        Path,
        typer.Argument(
            metavar="COUNTS",
            help="A .csv (a line a client, a column a class), partition, configuration or run.",
        ),
    ],
    data: Annotated[
        str | None, typer.Option("--data", help="The dataset that a saved partition divides.")
    ] = None,
    participation: Annotated[
        float | None,
        typer.Option(
            "--participation",
            min=0.001,
            max=1.0,
            help="Share of clients in a round. Default: what COUNTS says, or 0.5.",
        ),
    ] = None,
    results: Annotated[Path, typer.Option("--results", help="Where measurements are kept.")] = Path(
        "results"
    ),
) -> None:
    """Say from label counts alone how skewed a federation is and which methods to try first."""
    from fedskew import advise, evidence, tally

    found = tally.read(counts, data)
    measured = evidence.gather(results, (advise.OVERALL, advise.PERSONAL))
    share = participation or found.participation or 0.5
    advice = advise.advise(found, measured, share)
    if not measured:
        console.print(
            f"No measurements in {results}: name the folder of results of a clone with --results.\n"
        )
    for line in lines(advice, share):
        console.print(line, markup=False, soft_wrap=True)


def lines(advice: Advice, participation: float) -> Iterator[str]:
    """The advice in sentences."""
    from fedskew.advise import words

    skew = advice.skew
    yield f"{skew.clients} clients, {skew.classes} classes, {skew.samples} training examples: {words(skew)}."
    least, median, most = skew.sizes
    yield f"Sizes: {least} to {most} examples, median {median}."
    least, median, most = skew.held
    yield (
        f"Classes per client: {least} to {most}, median {median}; {100 * skew.missing:.0f} % of "
        f"(client, class) pairs are missing; clients with a single class: {skew.alone}."
    )
    yield (
        f"Mean Jensen-Shannon distance from the whole: {skew.distance:.2f} "
        f"(an even deal of the same sizes: {skew.by_chance:.2f})."
    )
    yield ""
    yield from _rare(advice.suffering, participation)
    yield ""
    yield "To try first:"
    for number, one in enumerate(advice.suggestions, 1):
        yield f"{number}. {one.method}, for {one.goal}: it {one.reason}."
        yield from (f"   measured: {_measured(finding)}" for finding in one.evidence[:3])
        if not one.evidence:
            yield "   not measured on a federation like this one: this is a reason, not a result."
    yield from (f"Left out: {name}. {why}" for name, why in advice.left_out)
    names = ",".join(dict.fromkeys(["fedavg", *(one.method for one in advice.suggestions)]))
    yield f"Compare them on your own data: fedskew compare CONFIG --methods {names}"


def _rare(found: Sequence[Suffering], participation: float) -> Iterator[str]:
    if not found:
        yield "No class is held by far fewer clients than the others."
        return
    yield "Classes that will suffer, held by few clients:"
    for one in found[:SHOWN]:
        yield (
            f"- {one.name}: held by {one.holders}, {one.samples} examples; at participation "
            f"{participation:g} nobody who holds it takes part in {100 * one.absent:.0f} % of the rounds."
        )
    if len(found) > SHOWN:
        yield f"- and {len(found) - SHOWN} more."


def _measured(one: Finding) -> str:
    where, seeds = one.setting, f"{one.value.n} seed{'s' * (one.value.n > 1)}"
    return (
        f"{_percent(one.value.mean, one.value.std)} against FedAvg's {_percent(one.base.mean, one.base.std)} "
        f"({one.metric}, {seeds}) on {where.label}; results/{where.recipe}.csv, {where.row}"
    )


def _percent(mean: float, std: float) -> str:
    return f"{100 * mean:.1f}" + (f" ± {100 * std:.1f}" if not math.isnan(std) else "")
