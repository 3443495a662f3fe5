"""Puts what is measured or generated into README.md: python tools/readme.py [--no-demo].

The parts between <!-- name --> and <!-- /name --> are replaced: the demo's output (it is run, which takes a
minute), the ten lines of Python, the table of methods, the claims that were tested and the measured speed.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BENCH = ROOT / "results" / "bench.json"
NOT_MEASURED = "Not measured yet: `results/bench.json` is written by the benchmarks."


def demo() -> str:
    """What `fedskew demo` prints at its end, without the progress lines."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "fedskew", "demo"], cwd=folder, capture_output=True, text=True, check=True
        )
    lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("training ")]
    return _fenced("text", re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip()))


def quick_start() -> str:
    """The example, word for word."""
    return _fenced("python", (ROOT / "examples" / "quick_start.py").read_text(encoding="utf-8").strip())


def methods() -> str:
    """Every preset: what it is, what leaves the client, what it costs."""
    rows = json.loads((ROOT / "fedskew" / "ledger.json").read_text(encoding="utf-8"))
    lines = [
        "| method | what it is | paper | leaves the client | down | up | kept |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        paper = f"{row['paper']} {row['year']}" if row["paper"] else ""
        numbers = " | ".join(f"{row[key]:.3g}" for key in ("down", "up", "state"))
        lines.append(f"| `{row['name']}` | {row['about']} | {paper} | {row['leaves']} | {numbers} |")
    return "\n".join(lines)


def claims() -> str:
    """What the papers claim and what came out, as far as results/ goes."""
    from fedskew.reproduce import document

    return document.summary(ROOT / "results")


def speed() -> str:
    """The rows of results/bench.json as a table; a sentence where there is no such file."""
    if not BENCH.exists():
        return NOT_MEASURED
    found = json.loads(BENCH.read_text(encoding="utf-8"))
    rows = found["rows"] if isinstance(found, dict) else found
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(_shown(row.get(key, '')) for key in columns)} |" for row in rows]
    return "\n".join(lines)


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def filled(text: str, parts: Mapping[str, str]) -> str:
    """The text with these parts replaced; a part without its markers is an error."""
    for name, content in parts.items():
        if f"<!-- {name} -->\n" not in text or f"<!-- /{name} -->" not in text:
            raise ValueError(f"README.md has no part {name}")
        before, rest = text.split(f"<!-- {name} -->\n", 1)
        after = rest.split(f"<!-- /{name} -->", 1)[1]
        text = f"{before}<!-- {name} -->\n{content}\n<!-- /{name} -->{after}"
    return text


def generated() -> dict[str, str]:
    """The parts that take no time."""
    return {"quick_start": quick_start(), "methods": methods(), "claims": claims(), "speed": speed()}


if __name__ == "__main__":
    parts = generated() if "--no-demo" in sys.argv else {**generated(), "demo": demo()}
    README.write_text(filled(README.read_text(encoding="utf-8"), parts), encoding="utf-8")
