"""What the page on deployment shows exists, and what can be run is run."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "deploy.md"


def shown(kind: str) -> list[str]:
    """The fenced blocks of a kind."""
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def commands() -> list[list[str]]:
    """Every command as words."""
    lines = "".join(shown("sh")).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines]


OPTIONS = [words for words in commands() if words[0].startswith(("fl", "fedskew"))]


@pytest.mark.slow
@pytest.mark.parametrize("words", OPTIONS, ids=lambda words: " ".join(words[:3]))
def test_every_option_exists(words: list[str], tmp_path: Path) -> None:
    tool, *rest = words
    command = [word for word in rest[:2] if word.isalpha()]
    done = subprocess.run(
        [Path(sys.executable).with_name(tool), *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert not [word for word in rest if word.startswith("--") and word not in done.stdout]


def test_the_settings_are_those_that_local_deployments_use() -> None:
    from fedskew.flower.deployment import QUIET

    exported = dict(words[1].split("=") for words in commands() if words[0] == "export")
    assert exported.items() <= QUIET.items()
    assert len(exported) == 3


@pytest.mark.skipif(
    not shutil.which("openssl") or not shutil.which("ssh-keygen"), reason="no OpenSSL or OpenSSH"
)
def test_certificates_and_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [code] = shown("python")
    subprocess.run([sys.executable, "-c", code], check=True)
    look = ["openssl", "x509", "-in", "certificates/server.pem", "-noout", "-ext", "subjectAltName"]
    names = subprocess.run(look, capture_output=True, text=True, check=True).stdout
    for name in ("DNS:fl.example.org", "DNS:localhost", "IP Address:127.0.0.1"):
        assert name in names
    [words] = [words for words in commands() if words[0] == "ssh-keygen"]
    subprocess.run(words, check=True)
    key = serialization.load_ssh_private_key(Path("node-0").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert Path("node-0.pub").read_text().startswith("ecdsa-sha2-nistp384 ")


def test_the_figures_are_those_of_the_benchmark() -> None:
    spec = importlib.util.spec_from_file_location("benchmark", ROOT / "benchmarks" / "flower.py")
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    measured = json.loads((ROOT / "results" / "flower-overhead.json").read_text(encoding="utf-8"))
    assert benchmark.table(measured) in PAGE.read_text(encoding="utf-8")
