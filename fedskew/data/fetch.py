"""Downloads: resumed after a cut, checked before they count, never from anywhere but http and https."""

import fcntl
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fedskew.errors import DataError

CHUNK = 1 << 16
NETWORK = (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException)


class Patience(NamedTuple):
    """How long a download may take its time and how much it may bring."""

    timeout: float = 30.0  # seconds without a byte
    attempts: int = 4  # in a row that bring nothing
    pause: float = 0.5  # seconds before the first retry, doubled each time
    limit: int = 1 << 33  # bytes


PATIENT = Patience()


def fetch(
    url: str,
    target: Path,
    right: Callable[[Path], bool],
    progress: Callable[[str, int, int], None],
    patience: Patience = PATIENT,
) -> Path:
    """Downloads `url` to `target` if `right` accepts it; a cut download goes on where it stopped."""
    if not url.startswith(("http://", "https://")):
        raise DataError(f"{url}: is no address of http or https, so nothing was fetched.")
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent):
            if target.exists() and right(target):  # another process has fetched it meanwhile
                return target
            for _ in range(2 if part.exists() else 1):  # an old part may be of an older file: then begin anew
                _complete(url, part, progress, patience)
                if right(part):
                    return part.replace(target)
                part.unlink()
    except OSError as error:
        raise DataError(
            f"{target}: cannot be written ({error}). Free some space or move the cache."
        ) from error
    raise DataError(f"{url}: what arrived has not the published hash and was not kept. Try later.")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits until no other process downloads into the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _complete(url: str, part: Path, progress: Callable[[str, int, int], None], patience: Patience) -> None:
    """Tries until the whole of `url` is in `part`; only attempts that bring nothing are counted."""
    fruitless, reason = 0, ""
    while fruitless < patience.attempts:
        before = _size(part)
        try:
            return _continue(url, part, progress, patience)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # nothing follows the part: it is no beginning of what is there now
                part.unlink(missing_ok=True)
            elif error.code < 500:
                raise DataError(f"{url}: the server answered {error.code}: {error.reason}.") from error
            reason = str(error)
        except NETWORK as error:
            reason = str(error) or type(error).__name__
        fruitless = 0 if _size(part) > before else fruitless + 1
        time.sleep(patience.pause * 2**fruitless)
    raise DataError(
        f"{url}: not reached in {patience.attempts} attempts ({reason}). Without a network, put the file "
        f"into {part.parent} or below the folder given by data.dir or $FEDSKEW_DATA."
    )


def _continue(url: str, part: Path, progress: Callable[[str, int, int], None], patience: Patience) -> None:
    """Appends to `part` what the server has beyond it, or starts anew if the server cannot resume."""
    start = _size(part)
    headers = {"Range": f"bytes={start}-"} if start else {}
    request = urllib.request.Request(url, headers=headers)
    with _opener().open(request, timeout=patience.timeout) as reply:
        resumes = reply.status == 206 and reply.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        done = start if resumes else 0
        length = reply.headers.get("Content-Length")
        total = done + int(length) if length and length.isdigit() else 0
        with part.open("ab" if resumes else "wb") as file:
            while chunk := reply.read(CHUNK):
                done += len(chunk)
                if done > patience.limit:
                    raise DataError(f"{url}: sends more than {patience.limit:,} bytes, so it was stopped.")
                file.write(chunk)
                progress(part.name.removesuffix(".part"), done, total)
    if done < total:
        raise ConnectionError(f"cut after {done:,} of {total:,} bytes")


def _opener() -> urllib.request.OpenerDirector:
    """An opener that knows http and https only, so that no redirect can reach file:// or ftp://."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
