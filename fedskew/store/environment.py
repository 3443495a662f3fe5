"""The machine and the versions a run began on: what decides whether another one gets the same bits."""

import platform
from pathlib import Path

import numpy
import safetensors
import torch

import fedskew

Environment = dict[str, str | int]


def describe() -> Environment:
    """This process, without names, times or paths."""
    return {
        "fedskew": fedskew.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "safetensors": safetensors.__version__,
        "platform": platform.platform(),
        "cpu": _cpu(),
    }


def differences(then: Environment, now: Environment) -> list[str]:
    """What has changed, one sentence each; a resumed run may then differ in its last bits."""
    changed = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    return [f"{name} was {then.get(name)}, is {now.get(name)}" for name in changed]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
