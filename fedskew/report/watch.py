"""The same page live: a small server for this machine only, which reads runs and writes nothing."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock as Mutex
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from fedskew import __version__, listing
from fedskew.errors import FedskewError
from fedskew.report import gather
from fedskew.report.gather import Seen
from fedskew.report.page import asset, body, compose, environment, nav, payload, plotly_js, scripts
from fedskew.report.study import study
from fedskew.store import layout

HOST = "127.0.0.1"
SCRIPTS = ("draw.js", "controls.js", "tables.js", "tsne.js", "live.js")
MOST = 200  # runs in one comparison
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # plotly.js adds rules of its own; a style can run nothing
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Answer(NamedTuple):
    """What is sent back."""

    kind: str
    content: bytes
    status: HTTPStatus = HTTPStatus.OK


@dataclass
class Watch:
    """A folder of runs as a live page; what has not changed on disk is not read again."""

    out: Path
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _rows: dict[Path, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    _seen: dict[Path, tuple[str, Seen]] = field(default_factory=dict)
    _mutex: Mutex = field(default_factory=Mutex)

    def answer(self, target: str) -> Answer:
        """The answer to a request for this address."""
        found = urlsplit(target)
        token, _, name = found.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return _text("There is nothing here.", HTTPStatus.NOT_FOUND)
        pages: dict[str, Callable[[], Answer]] = {
            "": self._page,
            "plotly.js": lambda: Answer("text/javascript", plotly_js().encode()),
            "report.js": lambda: Answer("text/javascript", scripts(SCRIPTS).encode()),
            "report.css": lambda: Answer("text/css", asset("report.css").encode()),
            "runs.json": lambda: _json({"runs": self.runs()}),
            "report.json": lambda: self._report(parse_qs(found.query).get("run", [])),
        }
        return pages[name]() if name in pages else _text("There is nothing here.", HTTPStatus.NOT_FOUND)

    def runs(self) -> list[dict[str, Any]]:
        """A line for every run below the folder."""
        with self._mutex:
            return [self._row(place) for place in layout.runs_in(self.out)]

    def _page(self) -> Answer:
        text = environment().get_template("watch.html.j2").render(folder=str(self.out), version=__version__)
        return Answer("text/html", text.encode())

    def _row(self, place: Path) -> dict[str, Any]:
        stamp, going = _stamp(place), listing.is_going(place)
        known = self._rows.get(place)
        if known is None or known[0] != stamp:
            names = ("name", "method", "seed", "rounds", "global", "personal", "state")
            row: dict[str, Any] = dict(zip(names, listing.row(place, self.out), strict=True))
            known = self._rows[place] = (stamp, row)
        state = known[1]["state"]
        if state in (listing.RUNNING, listing.RESUMABLE):  # it changes without a new stamp
            state = listing.RUNNING if going else listing.RESUMABLE
        return {**known[1], "state": state, "stamp": stamp}

    def _report(self, names: Sequence[str]) -> Answer:
        with self._mutex:
            places = {str(place.relative_to(self.out)): place for place in layout.runs_in(self.out)}
            chosen = [places[name] for name in dict.fromkeys(names) if name in places]
            if len(chosen) > MOST:
                return _json({"problem": f"{len(chosen)} runs are ticked; one page compares {MOST} at most."})
            try:
                page = compose(study([self._read(place) for place in chosen]), look_inside=False)
            except FedskewError as error:
                return _json({"problem": str(error)})
            return _json({"html": body(page), "nav": nav(page), "facts": page.facts, **payload(page)})

    def _read(self, place: Path) -> Seen:
        stamp, known = _stamp(place), self._seen.get(place)
        if known is None or known[0] != stamp:
            known = self._seen[place] = (stamp, gather.read(place))
        return known[1]


def server(watch: Watch, port: int = 0) -> ThreadingHTTPServer:
    """A server on this machine's own address; port 0 takes a free one."""
    return ThreadingHTTPServer((HOST, port), handler(watch))


def address(watch: Watch, running: ThreadingHTTPServer) -> str:
    """Where the page is; whoever knows the token may read it."""
    return f"http://{HOST}:{running.server_port}/{watch.token}/"


def handler(watch: Watch) -> type[BaseHTTPRequestHandler]:
    """Answers GET and nothing else, and only to those who call this machine by its own name."""

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "fedskew", ""
        timeout = 10

        def do_GET(self) -> None:
            """Reads."""
            # A page elsewhere that points its own name at this machine (DNS rebinding) shows by its name.
            name, _, _ = self.headers.get("Host", "").rpartition(":")
            if name not in (HOST, "localhost"):
                self._send(_text("Not for this name.", HTTPStatus.FORBIDDEN))
            else:
                self._send(watch.answer(self.path))

        def _refuse(self) -> None:
            self._send(_text("Only reading is possible.", HTTPStatus.METHOD_NOT_ALLOWED), {"Allow": "GET"})

        # http.server finds them by these names.
        do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815

        def _send(self, answer: Answer, more: dict[str, str] | None = None) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(answer.content)))
            for name, value in {**HEADERS, **(more or {})}.items():
                self.send_header(name, value)
            with suppress(ConnectionError):  # whoever asked may have gone
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.content)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: requests come every second."""

    return Handler


def _stamp(place: Path) -> str:
    """Changes with every round and event."""
    found = []
    for name in (layout.METRICS, layout.EVENTS, layout.CHECKPOINTS):
        try:
            status = (place / name).stat()
        except OSError:
            continue
        found.append(f"{status.st_mtime_ns:x}.{status.st_size:x}")
    return "-".join(found)


def _json(value: object) -> Answer:
    return Answer("application/json", json.dumps(value, separators=(",", ":"), allow_nan=False).encode())


def _text(text: str, status: HTTPStatus) -> Answer:
    return Answer("text/plain", text.encode(), status)
