"""docs/reproduction.md, from results/ alone: `python -m fedskew.reproduce.document` writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import get_args

from fedskew.files import write_text
from fedskew.reproduce import compare, contest, findings, keep, load, results
from fedskew.reproduce.cells import cells
from fedskew.reproduce.judge import Judgement, Verdict, judge
from fedskew.reproduce.recipe import Recipe
from fedskew.reproduce.results import Entry
from fedskew.reproduce.tables import table

WIDTH = 120
_HEAD = """# Reproduction

What five papers on label skew claim, and what came out here. This page is written by
`python -m fedskew.reproduce.document` from the files in `results/`; a test compares the two.
`fedskew recipes` lists the tables and figures with what they cost on your machine,
`fedskew reproduce RECIPE` runs what is missing. Where the same code made a quick run of the cell, the full one goes on
from it, unless a method follows a schedule over all rounds (FedPHP, MAP).

How claims are judged. Methods are compared in pairs: the same partition, participants and, where networks are the
same, initial model under each seed. *Confirmed*: the claimed sign in every seed and at least half of the claimed gain.
*Refuted*: the opposite sign in every seed, or the 95 % interval of the mean difference stays below half of the claimed
gain. *Undecided*: neither. Where a method is claimed to be above several, the size that counts is that over the closest
of them as printed; over the others the sign decides. A claimed tie is confirmed if every seed is within the limit, and
refuted if all are beyond it on one side, or the interval is.
A claim of many comparisons is confirmed if all that were tested are, and refuted if one is; *so far* stands behind a
verdict while comparisons or seeds are missing (three are wanted, or as many as the recipe has). With fewer than six
seeds nothing is called significant.
*By seed* stands the sign of every seed's difference, also where a claim allows it to be a little below zero; where a
value is claimed to be above or below a number, + is that side. Where one side of a comparison has quick runs only,
quick runs of both are compared, and *quick* stands beside what was found.
*Ours* is the mean over seeds ± their standard deviation, of the last ten rounds or of those that the paper takes; where
that is more than one, the *last round* stands beside it, or in brackets where a table has a column for each method.
*Quick* runs have fewer rounds than the paper's; clients, skew, participation, local epochs and losses are the same.
A * marks fewer than three seeds, a ! an accuracy more than 5 points from the published one: then models, data or rounds
are hardly those of the paper. A verdict on such a score is *far from the published scores*: the claim was tested
elsewhere than it was made.
"""


def render(folder: Path) -> str:
    """The page."""
    found = _found(folder)
    judged = _judged(found)
    short = "\n\n".join(fill(text, WIDTH, break_on_hyphens=False) for text in findings.paragraphs(found))
    parts = [_HEAD, "## In short\n", short, "", *_by_paper(judged), "", "## Claims\n", *_claims(judged), ""]
    for name, entries in found.items():
        parts += _recipe(load.load(name), entries, [one for recipe, one in judged if recipe.name == name])
    return "\n".join(parts).rstrip() + "\n"


def summary(folder: Path) -> str:
    """What came out, paper by paper in a few sentences."""
    texts = findings.paragraphs(_found(folder))
    return "\n".join(
        fill(f"- {text}", WIDTH, subsequent_indent="  ", break_on_hyphens=False) for text in texts
    )


def _by_paper(judged: Sequence[tuple[Recipe, Judgement]]) -> Iterator[str]:
    """Verdicts on the papers' own claims, each with a link to the first table that gave it."""
    verdicts = get_args(Verdict)
    yield f"| paper | {' | '.join(verdicts)} |"
    yield "|---" * (1 + len(verdicts)) + "|"
    for paper in dict.fromkeys(recipe.paper for recipe, one in judged if not one.claim.ours):
        mine = [pair for pair in judged if pair[0].paper == paper and not pair[1].claim.ours]
        cells = [_links([pair for pair in mine if pair[1].verdict == word]) for word in verdicts]
        yield f"| {paper} | {' | '.join(cells)} |"
    yield "\nWhat has a \\* may change with more seeds or comparisons; what has a ° rests on fewer rounds or a smaller"
    yield "network than the paper's; what has a † was tested on other data than the paper's. A claim of several"
    yield "sentences or datasets can stand in two columns."


def _links(judged: Sequence[tuple[Recipe, Judgement]]) -> str:
    found: dict[tuple[str, str, str], str] = {}
    for recipe, one in judged:
        marks = "*" * (bool(one.tested) and not one.is_final) + "°" * one.is_short
        marks += "†" * (bool(one.tested) and one.claim.other)
        found.setdefault((one.claim.id, marks, one.lacks), f"[{one.claim.id}](#{recipe.name}){marks}")
    return ", ".join(found[key] for key in sorted(found)) or "-"


def _found(folder: Path) -> dict[str, list[Entry]]:
    """Results by recipe, our own recipes after the papers'."""
    recipes = sorted(
        (load.load(name) for name in load.names()), key=lambda one: (one.paper == "ours", one.name)
    )
    return {recipe.name: keep.kept(recipe, folder) for recipe in recipes}


def _judged(found: Mapping[str, Sequence[Entry]]) -> list[tuple[Recipe, Judgement]]:
    recipes = [load.load(name) for name in found]
    return [(recipe, one) for recipe in recipes for one in judge(recipe, found[recipe.name])]


def _claims(judged: Sequence[tuple[Recipe, Judgement]]) -> Iterator[str]:
    yield "| claim | paper | what it says | verdict |"
    yield "|---|---|---|---|"
    for recipe, one in sorted(judged, key=lambda pair: (pair[1].claim.id, pair[1].claim.other)):
        where = f"[{recipe.where}](#{recipe.name})"
        yield f"| {one.claim.id} | {recipe.paper}, {where} | {one.claim.sentence} | {_verdict(one)} |"


def _verdict(one: Judgement) -> str:
    marks = f" ({', '.join(one.marks)})" if one.marks else ""
    return f"**{one.words}**{marks}" if one.is_final else f"{one.words}{marks}"


def _recipe(recipe: Recipe, entries: Sequence[Entry], judged: Sequence[Judgement]) -> Iterator[str]:
    yield f'<a id="{recipe.name}"></a>\n\n## {recipe.paper}, {recipe.where}: {recipe.title}\n'
    names = {cell.name for cell in cells(recipe)}
    run = {entry.cell for entry in entries}
    yield f"`fedskew reproduce {recipe.name}`: {len(run)} of {len(names)} cells {_has(len(run))} been run.\n"
    yield from (f"- {note}" for note in recipe.notes)
    if entries:
        for score in recipe.tables:
            yield from table(recipe, entries, score)
        yield from _provenance(recipe, entries)
        yield from _contests(recipe, entries)
    for one in judged:
        yield from _judgement(one)
    yield ""


def _contests(recipe: Recipe, entries: Sequence[Entry]) -> Iterator[str]:
    for ranking in contest.rankings(recipe, entries):
        yield f"\n{contest.sentence(recipe, ranking)}\n"
        head, *lines = contest.table(recipe, ranking)
        yield from (f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def _has(number: int) -> str:
    return "has" if number == 1 else "have"


def _provenance(recipe: Recipe, entries: Sequence[Entry]) -> Iterator[str]:
    makers = {part for entry in entries for part in entry.code.split(",")}
    quick, hours = (
        sum(entry.scale == "quick" for entry in entries),
        sum(entry.seconds for entry in entries) / 3600,
    )
    lacks = f"; {'the others ' * bool(quick)}{recipe.lacks}" * bool(recipe.lacks)
    by = (
        f"code {min(makers)}"
        if len(makers) == 1
        else f"by {len(makers)} versions of the code, which the CSV names"
    )
    yield f"\n{_runs(len(entries))} ({quick} quick{lacks}), {hours:.1f} hours by the clock, {by}."
    earlier = sum(not results.is_whole(recipe, entry) for entry in entries)
    if earlier:
        yield f"Not known of {_runs(earlier)}: what this page asks for since."


def _runs(number: int) -> str:
    return f"{number} run{'s' * (number != 1)}"


def _judgement(one: Judgement) -> Iterator[str]:
    if not one.tested:
        return
    yield f"\n{one.claim.id}: {one.claim.sentence} {_verdict(one)}\n"
    yield "| comparison | claimed | found | verdict |"
    yield "|---|---|---|---|"
    for contrast in one.tested:
        found, wanted = compare.words(contrast), compare.claimed(contrast)
        yield f"| {contrast.label} | {wanted} | {found} | {contrast.verdict} |"


def write(folder: Path, page: Path) -> None:
    """Writes the page."""
    write_text(page, render(folder))


if __name__ == "__main__":
    write(Path("results"), Path("docs/reproduction.md"))
