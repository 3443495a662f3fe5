"""What pictures need beyond numbers, of one finished run a cell: results/<recipe>.details.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedskew.config import parse
from fedskew.errors import DataError
from fedskew.naming import CENSUS
from fedskew.reproduce import collect, results
from fedskew.reproduce.cells import Cell
from fedskew.reproduce.recipe import Recipe
from fedskew.store.reader import RunReader

Record = dict[str, Any]


def read(recipe: str, folder: Path) -> dict[str, Record]:
    """The kept details, by cell."""
    path = folder / f"{recipe}.details.json"
    try:
        found: dict[str, Record] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise DataError(f"{path}: is not what `fedskew reproduce` writes ({error}). Remove it.") from error
    return found


def update(recipe: Recipe, cell: Cell, place: Path, folder: Path) -> None:
    """Adds the details of one finished run; those of the same settings are not made again."""
    if not recipe.details and not cell.study:
        return
    kept = read(recipe.name, folder)
    if kept.get(cell.name, {}).get("config") == cell.digest:
        return
    found = collect.study(place)["details"] if cell.study else gather(recipe.details, place)
    kept[cell.name] = {"config": cell.digest, "scale": cell.scale, **found}
    results.save_json(folder / f"{recipe.name}.details.json", kept)


def gather(wanted: Sequence[str], place: Path) -> Record:
    """The details of these names of a finished run."""
    known = {"census": census, "clients": clients, "components": components, "f1": f1, "map": client_map}
    return {name: known[name](place) for name in wanted}


def census(place: Path) -> Record:
    """Class names and the class counts of every client."""
    found: Record = json.loads(RunReader(place).file(CENSUS))
    return {"classes": found["classes"], "train": found["train"]}


def clients(place: Path) -> list[Record]:
    """Accuracy by class of the first clients' models, in a few rounds."""
    records = RunReader(place).clients()
    wanted = {9, 49, records[-1]["round"] if records else 0}
    return [_few(record) for record in records if record["round"] in wanted]


def _few(record: Mapping[str, Any], count: int = 5) -> Record:
    names = [key for key in record if key.endswith(".per_class")]
    rows = {name: [_rounded(row) for row in record[name][:count]] for name in names}
    return {"round": record["round"], "clients": record["clients"][:count], **rows}


def _rounded(row: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in row]


def client_map(place: Path) -> list[list[float]]:
    """Clients by their class shares in two dimensions (t-SNE)."""
    import numpy as np
    from sklearn.manifold import TSNE

    table = np.asarray(census(place)["train"], dtype=float)
    shares = table / table.sum(1, keepdims=True)
    near = min(15.0, (len(shares) - 1) / 3)
    points = TSNE(2, random_state=0, init="pca", perplexity=near).fit_transform(shares)
    return [[round(float(value), 3) for value in point] for point in points]


def components(place: Path) -> list[float]:
    """Accuracy of every binary component on the global test set after the last round (FedOVA, Fig. 3)."""
    found = RunReader(place).metrics()[-1].get("global.components", [])
    return [round(value, 4) for value in found]


def f1(place: Path) -> Record:
    """Macro-F1 of every client's model at home and everywhere (GRP-FED, Fig. 1 and 5)."""
    import torch

    from fedskew import build, metrics
    from fedskew.examine import Exam
    from fedskew.store import checkpoint

    config, point = parse(RunReader(place).config(), str(place)), checkpoint.load(place)
    if point is None:
        return {}
    with build.experiment(config).session(config.seeds[0]) as session:
        session.engine.kept.update(point.kept)
        names = (session.feed.algorithm.method.home,)
        marks = session.engine.examine(point.server, session.feed.federation.trainers, Exam(names))
        home = torch.stack([mark.home[0] for mark in marks])
        whole = torch.stack([mark.whole[0] for mark in marks if mark.whole is not None])
    tp, tr = metrics.macro_f1(home, "present"), metrics.macro_f1(whole)
    both = {"home": tp, "everywhere": tr, "both": metrics.harmonic(tp, tr)}
    return {name: _rounded(value.nan_to_num(0).tolist()) for name, value in both.items()}
