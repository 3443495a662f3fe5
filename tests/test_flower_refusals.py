"""Who may not take part in a deployment is refused, and the logs say so."""

from __future__ import annotations

import base64
import re
import shutil
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto.fleet_pb2 import ActivateNodeRequest

from fedskew.flower.certificates import certificates, node_key
from fedskew.flower.deployment import HOST, LINK, Deployment, DeploymentError, free_ports

pytestmark = pytest.mark.slow
PATIENCE = 90.0
PAGE = Path(__file__).parent.parent / "docs" / "deploy.md"
Options = Callable[[Deployment], list[str]]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A SuperLink with one SuperNode that is connected."""
    with Deployment(tmp_path_factory.mktemp("deployment"), 1) as started:
        started.start()
        assert said(started, "superlink", "Activated node_id")
        yield started


def said(deployment: Deployment, name: str, words: str) -> bool:
    """Whether a process says this in time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if words in deployment.log(name).read_text(errors="replace"):
            return True
        time.sleep(0.2)
    return False


def trusting(deployment: Deployment, authority: Path | None = None) -> list[str]:
    return ["--root-certificates", str(authority or deployment.files.authority)]


def with_key(path: Path) -> list[str]:
    return ["--auth-supernode-private-key", str(path)]


def unregistered(deployment: Deployment) -> list[str]:
    path = deployment.folder / "keys" / "stranger"
    node_key(path)
    return trusting(deployment) + with_key(path)


def wrong_authority(deployment: Deployment) -> list[str]:
    other = certificates(deployment.folder / "other", ("localhost", HOST))
    return trusting(deployment, other.authority) + with_key(deployment.key(0))


# Who, with which options, what its log says, what the SuperLink's says of it.
STRANGERS: dict[str, tuple[Options, str, str]] = {
    "unregistered": (
        unregistered,
        "Failed to activate SuperNode",
        "[/v1/fleet/activate-node][ApiError:2004]",
    ),
    "wrong-authority": (wrong_authority, "CERTIFICATE_VERIFY_FAILED", ""),
    "without-tls": (lambda deployment: ["--insecure"], "Connection attempt failed", ""),
    "without-key": (trusting, "authentication is enabled", "[/v1/fleet/register-node][ApiError:2001]"),
    "key-in-use": (
        lambda deployment: trusting(deployment) + with_key(deployment.key(0)),
        "Failed to activate SuperNode",
        "[/v1/fleet/activate-node][ApiError:2004]",
    ),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_refused(name: str, deployment: Deployment) -> None:
    options, own, link = STRANGERS[name]
    before = len(deployment.log("superlink").read_text(errors="replace"))
    [port] = free_ports(1)
    command = ["flower-supernode", "--superlink", f"{HOST}:{deployment.port}", "--host", HOST]
    deployment.spawn(name, [*command, "--port", str(port), *options(deployment)])
    assert said(deployment, name, own)
    assert "SuperNode ID" not in deployment.log(name).read_text(errors="replace")
    told = deployment.log("superlink").read_text(errors="replace")[before:]
    assert link in told
    assert "Activated node_id" not in told


def test_a_key_is_registered_once(deployment: Deployment) -> None:
    public = deployment.key(0).with_suffix(".pub")
    with pytest.raises(DeploymentError, match="already in use"):
        deployment.call(["flwr", "supernode", "register", str(public), LINK])
    assert said(deployment, "superlink", "Public key already in use")


@pytest.mark.parametrize(
    ("request_of", "status"),
    [
        ("its owner", 412),  # well signed; but the SuperNode is connected already
        ("its owner, ten minutes old", 401),
        ("another signer", 401),
        ("nobody", 401),
    ],
)
def test_a_request_that_its_owner_has_not_just_signed_is_refused(
    request_of: str, status: int, deployment: Deployment
) -> None:
    before = len(deployment.log("superlink").read_text(errors="replace"))
    age = timedelta(minutes=10 if "old" in request_of else 0)
    signer = (
        ec.generate_private_key(ec.SECP384R1()) if request_of == "another signer" else own_key(deployment)
    )
    assert activate(deployment, signer, age, signed=request_of != "nobody") == status
    told = deployment.log("superlink").read_text(errors="replace")[before:]
    assert f'"POST /v1/fleet/activate-node HTTP/1.1" {status}' in told


def own_key(deployment: Deployment) -> ec.EllipticCurvePrivateKey:
    found = serialization.load_ssh_private_key(deployment.key(0).read_bytes(), None)
    assert isinstance(found, ec.EllipticCurvePrivateKey)
    return found


def activate(deployment: Deployment, signer: ec.EllipticCurvePrivateKey, age: timedelta, signed: bool) -> int:
    """The status of a request to be taken for the SuperNode that is connected."""
    public = own_key(deployment).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    written = public.public_bytes(serialization.Encoding.PEM, form)
    stamp = (datetime.now(UTC) - age).isoformat()
    headers = {"content-type": "application/protobuf"}
    if signed:
        signature = signer.sign(stamp.encode(), ec.ECDSA(hashes.SHA256()))
        headers |= {"flwr-public-key": base64.b64encode(written).decode(), "flwr-timestamp": stamp}
        headers["flwr-signature"] = base64.b64encode(signature).decode()
    context = ssl.create_default_context(cafile=str(deployment.files.authority))
    line = HTTPSConnection(HOST, deployment.port, timeout=30, context=context)
    body = ActivateNodeRequest(public_key=written, heartbeat_interval=30.0).SerializeToString()
    line.request("POST", "/v1/fleet/activate-node", body, headers)
    status = line.getresponse().status
    line.close()
    return status


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_the_proxy_of_the_page_lets_supernodes_through_and_nobody_else(deployment: Deployment) -> None:
    [rule] = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    [port] = free_ports(1)
    place = deployment.folder / "proxy"
    place.mkdir()
    for name in ("ca.crt", "server.pem", "server.key"):
        rule = rule.replace(f"/etc/fedskew/{name}", str(deployment.folder / "certificates" / name))
    rule = rule.replace("listen 443", f"listen {HOST}:{port}").replace(":8000", f":{deployment.port}")
    temporary = "".join(
        f"{kind}_temp_path {place};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = f"daemon off; pid {place}/pid; error_log stderr; events {{}} http {{ access_log off; {temporary} {rule} }}"
    (place / "nginx.conf").write_text(text)
    deployment.spawn("proxy", ["nginx", "-p", str(place), "-c", "nginx.conf", "-e", "stderr"])
    context = ssl.create_default_context(cafile=str(deployment.files.authority))
    for path in ("/v1/control/list-runs", "/v1/runtime/acquire-task", "/", "/v1/fleet/../control/list-runs"):
        assert answer(port, context, path) == 403
    assert (
        answer(port, context, "/v1/fleet/activate-node") == 401
    )  # nothing is signed, but it has come through
    key = deployment.folder / "keys" / "behind-proxy"
    deployment.call(["flwr", "supernode", "register", str(node_key(key)), LINK])
    command = ["flower-supernode", "--superlink", f"{HOST}:{port}", "--host", HOST]
    command += ["--port", str(free_ports(1)[0]), *trusting(deployment), *with_key(key)]
    deployment.spawn("behind-proxy", command)
    assert said(deployment, "behind-proxy", "SuperNode ID")


def answer(port: int, context: ssl.SSLContext, path: str) -> int:
    """The status of a request that nobody has signed, as soon as somebody answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        line = HTTPSConnection(HOST, port, timeout=30, context=context)
        try:
            line.request("POST", path, b"", {"content-type": "application/protobuf"})
            return line.getresponse().status
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        finally:
            line.close()
