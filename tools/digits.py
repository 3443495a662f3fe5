"""All presets on digits, two labels a client, 20 clients: results/digits.csv and docs/digits.md.

python tools/digits.py RUNS [SEEDS] trains what is missing in the folder RUNS and writes both files.
"""

import csv
import math
import sys
from pathlib import Path

from fedskew import demo, parallel, runs
from fedskew.methods import presets
from fedskew.results import Result, Results

ROOT = Path(__file__).parent.parent
TRAINED = "personal.trained.accuracy"
METRICS = {
    "global.accuracy": "global accuracy",
    "global.macro_f1": "macro-F1",
    "personal.accuracy": "personalised accuracy",
    TRAINED: "of the locally trained model",
    "personal.missing": "on classes never seen",
}
SETTINGS = {
    "train.rounds": 40,
    "train.epochs": 3,
    "train.batch": 16,
    "train.lr": 0.05,
    "evaluate.also": ["trained"],
    "engine.name": "vectorised",
}
HEAD = """# All methods on digits

scikit-learn's digits over 20 clients with exactly two labels each; 10 clients a round, 40 rounds, 3 local epochs,
batch 16, SGD at 0.05, an MLP 64-64-10. Per cent, mean of the last ten rounds ± standard deviation over {seeds} seeds;
the partition, the initial model and the participants are the same for all methods under one seed. Every method has
its default settings: nothing was tuned, so read this as a first look, not as a ranking. Made by `tools/digits.py`
from `results/digits.csv`.

"""
TAIL = """
## Reading the outliers

- GRP-FED's aggregation, AFL and q-FFL weigh clients by their loss. At q = 10, GRP-FED's start, a loss twice as large
  weighs 1,024 times as much: one client with two labels decides most rounds.
- q-FedAvg (q-FFL as first published) and Per-FedAvg hardly leave their start with their authors' step sizes in 40
  short rounds.
- The global accuracy of `local`, `fedper`, `fedrep`, `fedproto` and `lg-*` is that of the clients' ensemble: they have
  no global network. This MLP has two layers, so `lg-fedavg` shares all of it and trains what FedAvg trains.
- FedLC and MAP are not where their papers would put them: `digits-why.md` shows what it depends on.
"""


def train(folder: Path, seeds: range) -> Results:
    """Trains what is missing, then reads everything."""
    places = []
    for name in presets():
        config = demo.config(name).changed(SETTINGS)
        places += [runs.ensure(config, seed, folder) for seed in seeds]
    for news in parallel.carry_on(places):
        if news.error:
            print(news.place, news.error)
        elif news.done == news.rounds:
            print(news.place, flush=True)
    return Results(tuple(runs.read(place) for place in places if runs.rounds_left(place) == 0))


def write_csv(results: Results, path: Path) -> None:
    """One line per method and seed."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["method", "seed", *METRICS])
        for run in results.runs:
            out.writerow([run.method, run.seed, *(f"{_score(run, metric):.6f}" for metric in METRICS)])


def _score(run: Result, metric: str) -> float:
    """Where a method's own model is the trained one, that is measured once."""
    value = run.mean_last(metric)
    return run.mean_last("personal.accuracy") if metric == TRAINED and math.isnan(value) else value


def read_csv(path: Path) -> Results:
    """The results back, as if each run had one round."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Results(
        tuple(
            Result(row["method"], row["method"], int(row["seed"]), ({m: float(row[m]) for m in METRICS},))
            for row in rows
        )
    )


def page(results: Results) -> str:
    """The table as a page."""
    rows = results.summary(tuple(METRICS))
    lines = ["| method | " + " | ".join(METRICS.values()) + " |", "|---|" + "---|" * len(METRICS)]
    lines += [
        f"| {row.method} | " + " | ".join(row.text(metric) for metric in METRICS) + " |" for row in rows
    ]
    return HEAD.format(seeds=max(row.seeds for row in rows)) + "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    write_csv(train(Path(sys.argv[1]), range(count)), ROOT / "results" / "digits.csv")
    (ROOT / "docs" / "digits.md").write_text(
        page(read_csv(ROOT / "results" / "digits.csv")), encoding="utf-8"
    )
