"""The bytes of one blob, taken up again where they broke off (RFC 9110, ranges)."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import httpx2

from evidence.cli import exits
from evidence.cli.failures import Failure
from evidence.cli.files import beside, remember, remembered
from evidence.cli.progress import Advance
from evidence.cli.provider import Params, patiently
from evidence.cli.session import Session

_SHA256 = re.compile(r'"([0-9a-f]{64})"')


@dataclass(frozen=True, slots=True)
class Download:
    """Which bytes, and who asks for them."""

    session: Session
    path: str
    params: Params


def to_file(wanted: Download, path: Path, advance: Advance) -> int:
    """Write or finish writing the file; gives its size."""
    part, about = beside(path, ".part"), beside(path, ".resume")
    tag = patiently(lambda: _more(wanted, part, about, advance))
    _check(part, tag)
    size = part.stat().st_size
    part.replace(path)
    about.unlink(missing_ok=True)
    return size


def to_stream(wanted: Download, file: BinaryIO, advance: Advance) -> None:
    """Write to a pipe, from the beginning."""
    with _opened(wanted, {}) as response:
        for done, piece in _pieces(response, 0):
            file.write(piece)
            advance(done, _whole(response))
    file.flush()


def _more(wanted: Download, part: Path, about: Path, advance: Advance) -> str:
    """Append what is missing; the entity tag of the whole."""
    tag = str(remembered(about).get("etag") or "")
    start = part.stat().st_size if tag and part.exists() else 0
    asked = {"Range": f"bytes={start}-", "If-Range": tag} if start else {}
    try:
        with _opened(wanted, asked) as response:
            if response.status_code != 206:
                start = 0
            tag = response.headers.get("etag", "")
            remember(about, {"etag": tag})
            with part.open("r+b" if start else "wb") as file:
                file.seek(start)
                for done, piece in _pieces(response, start):
                    file.write(piece)
                    advance(done, _whole(response))
    except Failure as failure:
        # 416: nothing is missing any more.
        if failure.code not in {"range_not_satisfiable", "http_416"}:
            raise
    return tag


def _opened(wanted: Download, headers: dict[str, str]) -> AbstractContextManager[httpx2.Response]:
    session = wanted.session
    return session.provider.stream(
        wanted.path,
        wanted.params,
        bearer=session.bearer(),
        headers={"Accept": "*/*", "Accept-Encoding": "identity", **headers},
    )


def _pieces(response: httpx2.Response, start: int) -> Iterator[tuple[int, bytes]]:
    done = start
    for piece in response.iter_bytes():
        done += len(piece)
        yield done, piece


def _whole(response: httpx2.Response) -> int | None:
    """How many bytes the blob has, from whichever header says so."""
    total = response.headers.get("content-range", "").rpartition("/")[2]
    if not total and response.status_code == 200:
        total = response.headers.get("content-length", "")
    return int(total) if total.isdecimal() else None


def _check(part: Path, tag: str) -> None:
    """Where the tag is the sha256 of the bytes, they have to have it."""
    found = _SHA256.fullmatch(tag)
    if found is None:
        return
    with part.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != found[1]:
        part.unlink()
        raise Failure(
            "damaged",
            "The bytes that arrived are not the bytes of the blob.",
            exit_code=exits.PROTOCOL,
            next_step="Run the same command again: it begins anew.",
        )
