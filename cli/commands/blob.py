"""`pdpp blob ID`: the bytes of a blob, resumable by range."""

import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2
import typer

from cli import errors, references
from cli.commands.fetch import of_one
from cli.errors import Failure
from cli.http_client import Params, patiently
from cli.options import Connection, params
from cli.partial_files import (
    Advance,
    beside,
    progress,
    refuse_existing,
    remember,
    remembered,
    writable,
)
from cli.references import Reference, segment
from cli.session import Session, command

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
            exit_code=errors.PROTOCOL,
            next_step="Run the same command again: it begins anew.",
        )


ID = typer.Argument(metavar="ID", help="A blob_id, its fetch_url, or a pdpp://blob handle.")
OUTPUT = typer.Option("--output", "-o", metavar="FILE", help="Else the id; - for a pipe.")
ROUTE = "/v1/blobs/"


@command
def blob(
    session: Session,
    blob_id: Annotated[str, ID],
    *,
    output: Annotated[Path | None, OUTPUT] = None,
    connection: Connection = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the file if it exists.")
    ] = False,
) -> None:
    """Save a blob. Run the same command again to resume it after an interruption."""
    named = reference(blob_id)
    path = output or Path(
        re.sub(r"[^\w.-]", "_", named.blob_id, flags=re.ASCII).lstrip(".") or "blob"
    )
    wanted = Download(
        session,
        f"{ROUTE}{segment(named.blob_id)}",
        params(connection_id=of_one(named, connection)),
    )
    with progress(f"Saving {path}", quiet=session.out.as_json, in_bytes=True) as advance:
        if str(path) == "-":
            to_stream(wanted, sys.stdout.buffer, advance)
            return
        refuse_existing(path, replace=replace)
        with writable(path):
            size = to_file(wanted, path, advance)
    told = {"object": "download", "blob_id": named.blob_id, "bytes": size, "file": str(path)}
    session.out.body(told, [f"{size} bytes in {path}"])


def reference(text: str) -> Reference:
    """A handle, an address as records carry it, or a bare id."""
    if text.startswith("pdpp://"):
        return references.parse(text)
    parts = urlsplit(text)
    if ROUTE in parts.path:
        named = parse_qs(parts.query).get("connection_id", [None])[0]
        return Reference(named, blob_id=unquote(parts.path.partition(ROUTE)[2]))
    return Reference(None, blob_id=text)
