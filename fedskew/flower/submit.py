"""Hands an app to a SuperLink that runs somewhere, with Flower's own command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fedskew.errors import ConfigError
from fedskew.flower.deployment import QUIET


def submit(folder: Path, link: str | None, run_dir: str | None, resume: bool) -> int:
    """Runs `flwr run` and shows the log until the run ends; its exit code."""
    if not (folder / "pyproject.toml").is_file():
        raise ConfigError(f"{folder} holds no app. Write one: fedskew flower init {folder}.")
    settings = f"resume={'true' if resume else 'false'}"
    if run_dir is not None:
        settings += f' run-dir="{run_dir}"'
    command = [str(Path(sys.executable).with_name("flwr")), "run", str(folder)]
    command += [link] if link else []
    return subprocess.call([*command, "--run-config", settings, "--stream"], env={**os.environ, **QUIET})
