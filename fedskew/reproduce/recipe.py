"""What a recipe says: the settings of every cell, the published numbers and the claims. No torch here."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fedskew.reproduce.kinds import DETAILS, PICTURES, check_study, known
from fedskew.reproduce.reduce import named_round, reducer

Settings = dict[str, Any]  # a part of a configuration, nested as in its file
Scale = Literal["full", "quick"]
SCALES: tuple[Scale, ...] = ("full", "quick")
BAND = 5.0  # points between a published share and ours that need no explanation
Tier = Annotated[int, Field(ge=1, le=3)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+-]*$")]
_PRINTED = re.compile(r"(?P<mean>-?[\d.]+)(?:±(?P<std>[\d.]+))?(?P<doubt>\?)?")


class Published(NamedTuple):
    """A number as it is printed; a doubtful one looks like a misprint and is no target."""

    mean: float
    std: float | None = None
    doubtful: bool = False
    digits: int = 0  # behind the point


def _printed(value: object) -> object:
    found = _PRINTED.fullmatch(str(value))
    if found is None:
        raise ValueError(f"{value!r} is not written as 69.5, '69.51±1.45' or '83.7?'")
    mean, std = found["mean"], found["std"]
    digits = len(mean.partition(".")[2])
    return Published(float(mean), None if std is None else float(std), found["doubt"] is not None, digits)


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Score(_Closed):
    """A number that is made of a run: which metric of its rounds, and how they become one."""

    label: str
    metric: str
    reduce: Annotated[str, BeforeValidator(lambda name: (named_round(name) or reducer(name)) and name)] = (
        "mean10"
    )
    percent: bool = True  # the metric is a share, the table prints per cent
    digits: int = 1

    @property
    def key(self) -> str:
        """Its column in the results."""
        return f"{self.metric}.{self.reduce}"

    @property
    def factor(self) -> float:
        """From the metric's unit to the table's."""
        return 100.0 if self.percent else 1.0

    @property
    def band(self) -> float:
        """How far from a published value, in the table's unit, needs no explanation."""
        return BAND * self.factor / 100


class Group(_Closed):
    """What several rows have in common, a dataset as a rule."""

    settings: Settings = {}
    quick: Settings = {}
    tier: Tier | None = None
    per_seed: tuple[str, ...] = Field((), description="settings that take the value of the seed")


class Column(_Closed):
    """A method of the table."""

    name: Name
    label: str = ""
    ours: bool = Field(False, description="a composition that no paper has published")
    tier: Tier | None = Field(None, description="at least this tier, whatever the row says")
    settings: Settings = {}
    on: dict[str, Settings] = Field({}, description="further settings by group")
    study: Settings = Field({}, description="options on top of the row's study")


class Row(_Closed):
    """A dataset and its skew."""

    name: Name
    label: str = ""
    group: str = ""
    tier: Tier | None = None
    tiers: dict[str, Tier] = Field({}, description="by column, where it differs")
    columns: tuple[str, ...] = Field((), description="those that the row has; empty: all")
    x: float | None = Field(None, description="its place on the axis of a sweep")
    settings: Settings = {}
    quick: Settings = {}
    study: Settings = Field({}, description="a study instead of a federated run: its name and options")
    published: dict[str, dict[str, Annotated[Published, BeforeValidator(_printed)]]] = {}


class Comparison(_Closed):
    """One column is above others in these rows, or more so than in the row it is held against."""

    rows: tuple[str, ...] = ("*",)
    more: tuple[str, ...]
    less: tuple[str, ...] = ()
    against: str | None = Field(None, description="a row whose own difference is taken off")
    above: float | None = Field(None, description="a number to be above, instead of another column")
    below: float | None = Field(None, description="a number to be below")
    gain: float | dict[str, float] | None = Field(None, description="claimed; default: as published")
    slack: float | None = Field(None, description="not lower by more than this, instead of a gain")
    within: float | None = Field(None, description="neither lower nor higher by more than this")
    score: str | None = None
    less_score: str | None = Field(None, description="of what it is compared with, where it is another")


class Claim(_Closed):
    """A sentence of a paper as comparisons."""

    id: str
    text: str
    score: str
    ours: bool = Field(False, description="no paper claims it: it explains, or asks what a paper left out")
    other: bool = Field(False, description="tested on other data than the paper's")
    lacks: str = Field(
        "", description="what even full runs lack of the paper's, where it is not the recipe's"
    )
    compare: tuple[Comparison, ...]

    @property
    def sentence(self) -> str:
        """What is claimed, and by whom if not by the paper."""
        return f"Ours, not the paper's: {self.text}" if self.ours else self.text


class Contest(_Closed):
    """All columns ranked by their mean score over some rows."""

    title: str
    score: str
    rows: tuple[str, ...] = ("*",)


class Picture(_Closed):
    """A figure of the paper, to be drawn from the results."""

    kind: str
    title: str
    options: Settings = {}

    @model_validator(mode="after")
    def _complete(self) -> Picture:
        known("kind of picture", [self.kind], PICTURES)
        PICTURES[self.kind].check(f"a picture of kind {self.kind}", self.options)
        return self


class Recipe(_Closed):
    """One published table or figure."""

    name: Name
    paper: str
    where: str
    title: str
    tier: Tier = 3
    seeds: tuple[int, ...] = (0, 1, 2)
    notes: tuple[str, ...] = ()
    lacks: str = Field("", description="what even full runs lack of the paper's, as a mark on verdicts")
    shown: tuple[str, ...] | None = Field(None, description="scores that have a table; default: all")
    settings: Settings = {}
    quick: Settings = {}
    scores: dict[str, Score]
    metrics: tuple[str, ...] = Field((), description="further metrics to keep")
    curves: tuple[str, ...] = Field((), description="metrics kept round by round")
    details: tuple[str, ...] = Field((), description="what a picture needs beyond numbers")
    groups: dict[str, Group] = {}
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...] = ()
    contests: tuple[Contest, ...] = ()
    pictures: tuple[Picture, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """The scores that have a table."""
        return tuple(self.scores) if self.shown is None else self.shown

    def chosen(self, patterns: tuple[str, ...]) -> list[Row]:
        """The rows whose names match one of the patterns."""
        return [row for row in self.rows if any(fnmatchcase(row.name, pattern) for pattern in patterns)]

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        columns, rows = [c.name for c in self.columns], [r.name for r in self.rows]
        for kind, names in (("column", columns), ("row", rows)):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"{kind} {min(twice)} occurs twice")
        for row in self.rows:
            known(f"group of row {row.name}", [row.group] if row.group else [], self.groups)
            known(f"score of row {row.name}", row.published, self.scores)
            used = {name for printed in row.published.values() for name in printed}
            known(f"column of row {row.name}", {*row.columns, *row.tiers, *used}, columns)
            for column in self.columns if row.study else ():
                check_study(f"study of {row.name}.{column.name}", {**row.study, **column.study})
        for column in self.columns:
            known(f"group of column {column.name}", column.on, self.groups)
        known("detail", self.details, DETAILS)
        known("score to be shown", self.tables, self.scores)
        for claim in self.claims:
            self._check(claim, columns)
        for contest in self.contests:
            known(f"score of contest {contest.title}", [contest.score], self.scores)
            self._match(f"contest {contest.title}", contest.rows)
        for picture in self.pictures:
            for option, choices in (("score", self.scores), ("metric", self.curves)):
                chosen = [picture.options[option]] if option in picture.options else []
                known(f"{option} of picture {picture.title}", chosen, choices)
            self._match(f"picture {picture.title}", tuple(picture.options.get("rows", ())))
        return self

    def _match(self, what: str, patterns: tuple[str, ...]) -> None:
        if not all(self.chosen((pattern,)) for pattern in patterns):
            raise ValueError(f"{what}: no row matches one of {', '.join(patterns)}")

    def _check(self, claim: Claim, columns: list[str]) -> None:
        for one in claim.compare:
            known(f"column of claim {claim.id}", [*one.more, *one.less], columns)
            named = [one.score or claim.score, *([one.less_score] if one.less_score else [])]
            known(f"score of claim {claim.id}", named, self.scores)
            self._match(f"claim {claim.id}", one.rows)
            if one.against and one.against not in [row.name for row in self.rows]:
                raise ValueError(f"claim {claim.id}: there is no row {one.against}")
            held = (*one.less, one.against, one.above, one.below)
            if all(value is None for value in held):
                raise ValueError(f"claim {claim.id}: {one.more} is compared with nothing")
