"""Row 13: ten thousand clients that all remember something, in bounded memory: their states are on disk."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import numpy as np
from counting import Tally
from victims import small, start, wait

from fedskew import runs
from fedskew.store.reader import RunReader

CLIENTS, A_ROUND, ROUNDS = 10_000, 500, 50
WARM = 5  # rounds after which everything that is loaded once is there
MEGA = 1 << 20
MOST, GROWTH = 1500 * MEGA, 100 * MEGA


def resident() -> int:
    """The memory this process occupies now."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def test_memory_does_not_grow_with_the_clients(tmp_path: Path, tally: Tally) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2 * CLIENTS, 64)).astype(np.float32), np.arange(2 * CLIENTS) % 10
    np.savez(tmp_path / "many.npz", x=x, y=y, test=np.arange(2 * CLIENTS) >= 2 * CLIENTS - 100)
    settings = {
        **{"data__name": "arrays", "data__path": str(tmp_path / "many.npz")},
        **{"split": {"scheme": "iid", "clients": CLIENTS}, "train__participation": A_ROUND / CLIENTS},
        **{"train__rounds": ROUNDS, "model__hidden": [64], "evaluate__personal": 0, "evaluate__every": 25},
        **{"engine__name": "vectorised", "engine__block": 100},
    }
    config = small("scaffold", **settings)
    place, log = runs.begin(config, 0, tmp_path), tmp_path / "memory.jsonl"

    def watched() -> None:
        with log.open("w") as file:

            def note(_: Path, done: int, rounds: int) -> None:
                file.write(f"[{done}, {resident()}, {len(os.listdir('/proc/self/fd'))}]\n")

            runs.carry_on(place, note)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        (tmp_path / "peak").write_text(str(peak))

    with tally.case():
        assert wait(start(watched)) == 0
        seen = [json.loads(line) for line in log.read_text().splitlines()]
        assert len(seen) == ROUNDS
        peak, grown = int((tmp_path / "peak").read_text()), max(row[1] for row in seen) - seen[WARM - 1][1]
        took_part = {client for row in RunReader(place).metrics() for client in row["participants"]}
        states = list((place / "states").glob("*.safetensors"))
        tally.notes |= {
            "peak MB": peak // MEGA,
            "growth MB": grown // MEGA,
            "clients with a state": len(took_part),
        }
        tally.notes["MB of states on disk"] = sum(path.stat().st_size for path in states) // MEGA
        assert len(states) >= len(took_part) > 9 * CLIENTS // 10
        assert peak <= MOST
        assert grown < GROWTH
