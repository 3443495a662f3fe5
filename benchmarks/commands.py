"""How long a user waits for a command: a table for docs/performance.md.

    python benchmarks/commands.py

Each is started afresh in an empty folder, as a shell would; the median of some repetitions counts, the demo runs once.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OUT = Path(__file__).parent.parent / "results" / "commands.json"
WRONG = "[train]\nlearning_rate = 1\n"
REPETITIONS = 5
COMMANDS = {
    "fedskew demo": 1,
    "fedskew --help": REPETITIONS,
    "fedskew methods": REPETITIONS,
    "fedskew run wrong.toml": REPETITIONS,
    "fedskew ls --out runs/demo": REPETITIONS,
    "fedskew report runs/demo": REPETITIONS,
}


def seconds(command: str, folder: Path) -> float:
    """What one start takes, whatever its exit code."""
    words = [sys.executable, "-m", *command.split()]
    began = time.perf_counter()
    subprocess.run(words, cwd=folder, env={**os.environ, "COLUMNS": "100"}, capture_output=True, check=False)
    return time.perf_counter() - began


def main() -> None:
    """All commands, in the folder that the demo fills with its runs."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "wrong.toml").write_text(WRONG, encoding="utf-8")
        for command, repetitions in COMMANDS.items():
            taken = [seconds(command, folder) for _ in range(repetitions)]
            rows.append({"command": command, "seconds": round(statistics.median(taken), 2)})
            print(*rows[-1].values(), sep="\t", flush=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
