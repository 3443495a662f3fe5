"""Counts of the fault tests and of the study of bad clients, as results/reliability.json and docs/reliability.md.

FEDSKEW_FAULTS_LOG=short.jsonl make test; FEDSKEW_FAULTS_LOG=long.jsonl make faults
python tools/reliability.py short.jsonl long.jsonl adds what they counted and writes the page; without arguments
it writes the page again.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
COUNTS = ROOT / "results" / "reliability.json"
STUDY = ROOT / "results" / "robustness.csv"
PAGE = ROOT / "docs" / "reliability.md"
Counts = dict[str, Any]
PLAIN = ("row", "form", "test", "tried", "passed", "seconds", "processor_seconds")


class Row(NamedTuple):
    """One promise: what is done to a run, how often in the short and in the long form, and what must come of it."""

    what: str
    asked: str
    must: str


ROWS = {
    1: Row(
        "SIGKILL at a random moment, presets in turn", "60 / 3,000", "same bytes, no committed round lost"
    ),
    2: Row(
        "crash, full disk, fault or power cut at every call", "all", "round before intact, exit 5, resumes"
    ),
    3: Row("a disk that is really full", "10 / 50", "exit 5, nothing half-written read, resumes"),
    4: Row("worker killed in a round (pool, Ray)", "20 / 1,000", "goes on to the same bits"),
    5: Row(
        "two processes on one run", "40 / 2,000", "one runs, the other exits 6 in 2 s; dead owners give way"
    ),
    6: Row("1, 2, 4, 8 workers, any order of answers", "presets x 2 seeds", "one hash, one thread a worker"),
    7: Row("bad replies of clients", "2,032 / 100,000", "refused with a reason; as if that client were away"),
    8: Row(
        "changed bytes in files of runs and partitions",
        "5,000 / 50,000",
        "all noticed; falls back or says so",
    ),
    9: Row(
        "clients that drop out or are late",
        "40 / 400",
        "only survivors count; none: the model stays; no hang",
    ),
    10: Row("settings and data that diverge", "20", "exit 4, last finite model kept, a hint"),
    11: Row(
        "wrong configurations made from the schema", "650 / 10,000", "exit 2, key and remedy named, no trace"
    ),
    13: Row("10,000 clients, 500 a round, 50 rounds", "1", "at most 1,500 MB, growth below 100 MB"),
    14: Row("2,000 rounds", "long", "no growth; last 100 rounds as fast as the first"),
}
TWELVE = "| 12 | clients that flip labels or send noise, robust means | 5 seeds | a table | below | below |"
HEAD = """# Reliability

What is done to fedskew on purpose, how often, and what came of it. Every number on this page is counted by the tests
in `tests/faults` (row 12: by `tools/robustness.py`) and brought here by `tools/reliability.py`; `make test` runs the
short forms, `make faults` the long ones, and both print their counts. "not run" says that nobody has run that form on
this version. A form cut short (`FEDSKEW_FAULTS_PART=0.1`) shows the count that was really run. Seconds are
processor seconds, since the machine also did other work.

| # | what is done | asked (short / long) | what must come of it | short | long |
|---|---|---|---|---|---|
"""
DETAILS = """
## What was counted

| # | test | form | passed | of | processor s | further figures |
|---|---|---|---|---|---|---|
"""
NOTES = """
## What this rests on

- **A round is committed in one step.** States are files named by their SHA-256; a manifest that names them, with its
  own hash and those of the metrics so far, is renamed into place last. Until then the round before is the run. Two
  checkpoints are kept, so a damaged one has a predecessor.
- **Nothing is believed unread.** safetensors has no checksum of its own, so sizes are compared before anything is
  allocated and hashes before anything is used. What does not fit is refused with the file's name, or the run falls
  back to the previous checkpoint and says which round that is.
- **Randomness is keyed** by seed, round and client, so a round that is done again gives the same bits, in whichever
  process and order.
- **A run has one owner.** The kernel releases its lock when the owner dies; there is nothing stale to remove by hand.
- **Clients' states stay on disk**; in memory is what is not committed yet and at most 64 MB beside.
- **What diverges is not committed.** A loss that is not finite or beyond 1e6, or a server's entry that is not finite,
  ends the run with exit 4 before that round is written.

Found by these tests and mended, with the failing case kept: a learning rate of 1e3 whose dead units kept all numbers
finite ended with exit 0; a last step that overflowed after finite losses was committed where no evaluation followed;
two parts for one slot in a configuration: the last one silently won; a checkpoint with right hashes and another
network ended in a traceback; a resumed run read every client's state into memory.
"""
STUDY_HEAD = """
## Row 12: bad clients and robust aggregates

Digits over 20 clients, all in every round, 20 rounds of one epoch, {seeds} seeds; accuracy of the server's model in
per cent, mean of the last five rounds ± standard deviation over seeds. **flip**: a bad client learns 9 - y for y.
**noise**: it uploads what it received plus Gaussian noise of deviation 0.5. The rules are opt-in parts:
`[method.Median]`, `[method.TrimmedMean]`, `[method.MultiKrum]` (both told to expect 30 %), `[method.ClippedMean]`
(radius 1). Nothing was tuned.

"""
STUDY_END = """
How to read it: with everybody's data alike, robust rules cost little and mostly help. Under label skew an honest
client with rare classes looks like an outlier: rules that drop or outvote outliers drop those classes, and lose
**without any attacker** what the column "none" shows; against flipped labels none of them did better here than the
plain mean.
None makes a federation immune: a flipped label is a plausible update, attackers who know the rule can stay below it,
and what methods send beside the model (control variates, prototypes, losses) is averaged plainly.
"""


def read_log(path: Path) -> list[Counts]:
    """The records of one run of the tests."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def merged(old: Sequence[Counts], new: Sequence[Counts]) -> list[Counts]:
    """New records in the place of old ones of the same test and form."""
    found = {_key(one): one for one in (*old, *new)}
    return [found[key] for key in sorted(found)]


def _key(one: Counts) -> tuple[int, str, str]:
    return int(one["row"]), str(one["test"]), str(one["form"])


def text(counts: Sequence[Counts], study: Sequence[Counts]) -> str:
    """The page."""
    lines = [_row(number, row, counts) for number, row in ROWS.items()]
    lines.insert(list(ROWS).index(13), TWELVE)
    details = [_detail(one) for one in counts]
    parts = [
        HEAD,
        "\n".join(lines),
        "\n",
        _total(counts),
        DETAILS,
        "\n".join(details),
        "\n",
        NOTES,
        _study(study),
    ]
    return "".join(parts)


def _total(counts: Sequence[Counts]) -> str:
    busy = sum(one["processor_seconds"] for one in counts if one["form"] == "short")
    return f"\nAll short forms together took {busy:.0f} processor seconds, without those of Ray's own processes.\n"


def _row(number: int, row: Row, counts: Sequence[Counts]) -> str:
    found = [_form(number, form, counts) for form in FORMS]
    return f"| {number} | {row.what} | {row.asked} | {row.must} | " + " | ".join(found) + " |"


FORMS = ("short", "long")
NONE = ((10, "long"), (13, "long"), (14, "short"))


def _form(number: int, form: str, counts: Sequence[Counts]) -> str:
    found = [one for one in counts if (one["row"], one["form"]) == (number, form)]
    if not found:
        return "none asked" if (number, form) in NONE else "not run"
    passed, tried = (sum(one[name] for one in found) for name in ("passed", "tried"))
    return f"{passed:,} of {tried:,}"


def _detail(one: Counts) -> str:
    notes = "; ".join(f"{name}: {value}" for name, value in one.items() if name not in PLAIN)
    name = str(one["test"]).removeprefix("test_").replace("_", " ")
    cells = (
        one["row"],
        name,
        one["form"],
        f"{one['passed']:,}",
        f"{one['tried']:,}",
        one["processor_seconds"],
        notes,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _study(rows: Sequence[Counts]) -> str:
    if not rows:
        return ""
    attacks = list(dict.fromkeys((row["attack"], row["share"]) for row in rows))
    names = ["none" if attack == "none" else f"{attack} {float(share):.0%}" for attack, share in attacks]
    lines = ["| clients | rule | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for split, rule in dict.fromkeys((row["split"], row["rule"]) for row in rows):
        cells = [_cell(rows, split, rule, *attack) for attack in attacks]
        lines.append(f"| {split} | {rule} | " + " | ".join(cells) + " |")
    seeds = len({row["seed"] for row in rows})
    return STUDY_HEAD.format(seeds=seeds) + "\n".join(lines) + "\n" + STUDY_END


def _cell(rows: Sequence[Counts], split: str, rule: str, attack: str, share: str) -> str:
    wanted = (split, rule, attack, share)
    names = ("split", "rule", "attack", "share")
    found = [100 * float(row["accuracy"]) for row in rows if tuple(row[name] for name in names) == wanted]
    spread = f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
    return f"{statistics.mean(found):.1f}{spread}"


def known() -> tuple[list[Counts], list[Counts]]:
    """What is kept: the counts, and the lines of the study."""
    counts = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else []
    if not STUDY.exists():
        return counts, []
    with STUDY.open(encoding="utf-8") as file:
        return counts, list(csv.DictReader(file))


def main(logs: Sequence[str]) -> None:
    """Takes in the logs and writes both files."""
    counts, study = known()
    for log in logs:
        counts = merged(counts, read_log(Path(log)))
    COUNTS.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(text(counts, study), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
