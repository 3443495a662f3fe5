"""Downloads against a server on this machine: cuts, wrong content, errors, slowness, forbidden redirects."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedskew.data.fetch import Patience, fetch
from fedskew.data.folder import File, Folder
from fedskew.errors import DataError

CONTENT = bytes(k * 7 % 256 for k in range(300_000))
QUICK = Patience(timeout=0.3, attempts=3, pause=0.01)


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT in the ways the path asks for, and notes the ranges it was asked for."""

    def do_GET(self) -> None:
        seen = self.headers.get("Range")
        self.server.asked.append(seen)  # type: ignore[attr-defined]
        first = int(seen.removeprefix("bytes=").removesuffix("-")) if seen else 0
        getattr(self, "serve_" + self.path.strip("/").replace("-", "_"))(first)

    def send(self, body: bytes, first: int, upto: int | None = None) -> None:
        """Promises the rest of `body` from `first` and sends it up to `upto`."""
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(body) - first))
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        self.wfile.write(body[first:upto])

    def serve_whole(self, first: int) -> None:
        self.send(CONTENT, first)

    def serve_cut(self, first: int) -> None:
        self.send(CONTENT, first, first + 100_000)

    def serve_no_ranges(self, first: int) -> None:
        self.send(CONTENT, 0)

    def serve_other(self, first: int) -> None:
        self.send(b"another file", 0)

    def serve_absent(self, first: int) -> None:
        self.send_error(404)

    def serve_busy_then_well(self, first: int) -> None:
        if len(self.server.asked) < 3:  # type: ignore[attr-defined]
            self.send_error(503)
        else:
            self.send(CONTENT, first)

    def serve_stalls(self, first: int) -> None:
        self.send(CONTENT, first, first)
        time.sleep(1)

    def serve_drips(self, first: int) -> None:
        self.send(CONTENT, first, first)
        for k in range(first, len(CONTENT), 60_000):
            self.wfile.write(CONTENT[k : k + 60_000])
            time.sleep(0.05)

    def serve_to_file(self, first: int) -> None:
        self.send_response(302)
        self.send_header("Location", "file:///etc/hostname")
        self.end_headers()

    def serve_to_whole(self, first: int) -> None:
        self.send_response(302)
        self.send_header("Location", "/whole")
        self.end_headers()

    def serve_round_and_round(self, first: int) -> None:
        self.send_response(302)
        self.send_header("Location", "/round-and-round")
        self.end_headers()

    def serve_range_refused(self, first: int) -> None:
        if first:
            self.send_error(416)
        else:
            self.send(CONTENT, 0)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def get(
    server: ThreadingHTTPServer, path: str, target: Path, patience: Patience = QUICK
) -> list[tuple[int, int]]:
    """Fetches the path and returns the progress that was shown."""
    shown: list[tuple[int, int]] = []
    url = f"http://127.0.0.1:{server.server_port}/{path}"
    fetch(url, target, lambda p: p.read_bytes() == CONTENT, lambda _, n, of: shown.append((n, of)), patience)
    return shown


def test_whole(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    shown = get(server, "whole", tmp_path / "deep" / "file")
    assert (tmp_path / "deep" / "file").read_bytes() == CONTENT
    assert shown[-1] == (len(CONTENT), len(CONTENT))
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["file"]


def test_two_that_want_it_get_it_and_one_fetches(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as both:
        told = list(both.map(lambda _: get(server, "cut", tmp_path / "file"), range(2)))
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert sorted(map(bool, told)) == [False, True]
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]  # type: ignore[attr-defined]


def test_a_cut_download_goes_on_where_it_stopped(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    get(server, "cut", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]  # type: ignore[attr-defined]


def test_the_part_of_an_earlier_run_is_used(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:250_000])
    get(server, "whole", tmp_path / "file")
    assert server.asked == ["bytes=250000-"]  # type: ignore[attr-defined]


def test_a_part_of_another_file_is_thrown_away(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    get(server, "whole", tmp_path / "file")
    assert server.asked == ["bytes=1000-", None]  # type: ignore[attr-defined]
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["no-ranges", "range-refused"])
def test_a_server_that_cannot_resume_is_asked_for_all(
    server: ThreadingHTTPServer, tmp_path: Path, path: str
) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    get(server, path, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_wrong_content_is_not_kept(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not the published hash"):
        get(server, "other", tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_absent(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"/absent: the server answered 404"):
        get(server, "absent", tmp_path / "file")
    assert len(server.asked) == 1  # type: ignore[attr-defined]


def test_a_busy_server_is_asked_again(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    get(server, "busy-then-well", tmp_path / "file")
    assert len(server.asked) == 3  # type: ignore[attr-defined]


def test_a_server_that_stalls_is_given_up(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    start = time.perf_counter()
    with pytest.raises(DataError, match="not reached in 3 attempts"):
        get(server, "stalls", tmp_path / "file", QUICK._replace(timeout=0.1))
    assert time.perf_counter() - start < 5


def test_a_slow_server_is_waited_for(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    shown = get(server, "drips", tmp_path / "file")
    assert len(shown) >= 5


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"put the file into .* or below the folder given by data\.dir"):
        fetch("http://127.0.0.1:9/x", tmp_path / "x", lambda p: True, lambda *_: None, QUICK)


@pytest.mark.parametrize("path", ["to-file", "round-and-round"])
def test_forbidden_redirects(server: ThreadingHTTPServer, tmp_path: Path, path: str) -> None:
    with pytest.raises(DataError, match=path):
        get(server, path, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_to_http_is_followed(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    get(server, "to-whole", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "/etc/hostname"])
def test_only_http_is_spoken(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError):
        fetch(url, tmp_path / "x", lambda p: True, lambda *_: None, QUICK)
    assert list(tmp_path.iterdir()) == []


def test_more_than_the_limit_is_refused(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="more than 100,000 bytes"):
        get(server, "whole", tmp_path / "file", QUICK._replace(limit=100_000))
    assert not (tmp_path / "file").exists()


def test_a_dataset_is_fetched_into_the_cache_once(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    monkeypatch.delenv("FEDSKEW_DATA", raising=False)
    url = f"http://127.0.0.1:{server.server_port}/whole"
    file = File("numbers.bin", url, sha256=hashlib.sha256(CONTENT).hexdigest())
    folder = Folder(cache=tmp_path, download=True)
    for _ in range(2):
        assert folder.find(file, ["numbers"]) == tmp_path / "raw" / "numbers" / "numbers.bin"
    assert len(server.asked) == 1  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="published hash"):
        folder.find(file._replace(name="other.bin", sha256="0" * 64), ["numbers"])


def test_a_folder_that_cannot_be_written(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    with pytest.raises(DataError, match="cannot be written"):
        get(server, "whole", tmp_path / "blocked" / "file")
