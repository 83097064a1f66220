"""`pdpp blob ID`: download a blob, resuming with HTTP range requests."""

import hashlib
import re
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2
import typer

from cli import errors
from cli.commands.fetch import parse_id_argument, select_connection
from cli.errors import CliError, usage_error
from cli.http_client import Params, with_retries
from cli.partial_files import (
    ReportProgress,
    load_state,
    progress_bar,
    reject_existing,
    report_write_errors,
    save_state,
    sibling_path,
)
from cli.session import Connection, Session, command, query_params
from evidence.record_ids import ParsedUri, path_segment

ID = typer.Argument(metavar="ID", help="A blob_id, its fetch_url, or a pdpp://blob URI.")
OUTPUT = typer.Option("--output", "-o", metavar="FILE", help="Default: the id; - for a pipe.")
ROUTE = "/v1/blobs/"
_SHA256_TAG = re.compile(r'"([0-9a-f]{64})"')


@dataclass(frozen=True, slots=True)
class Download:
    """The URL of a blob and the session that requests it."""

    session: Session
    path: str
    params: Params

    def save(self, path: Path, report: ReportProgress) -> int:
        """Write the blob to a file, resuming a partial one. Returns the size in bytes."""
        part, state = sibling_path(path, ".part"), sibling_path(path, ".resume")
        etag = with_retries(lambda: self._append_missing(part, state, report))
        _check_sha256(part, etag)
        size = part.stat().st_size
        part.replace(path)
        state.unlink(missing_ok=True)
        return size

    def write_to(self, file: BinaryIO, report: ReportProgress) -> None:
        """Write the blob to a pipe."""
        with self._open({}) as response:
            _copy(response, file, 0, report)
        file.flush()

    def _append_missing(self, part: Path, state: Path, report: ReportProgress) -> str:
        etag = str(load_state(state).get("etag") or "")
        start = part.stat().st_size if etag and part.exists() else 0
        headers = {"Range": f"bytes={start}-", "If-Range": etag} if start else {}
        try:
            with self._open(headers) as response:
                if response.status_code != 206:
                    start = 0
                etag = response.headers.get("etag", "")
                save_state(state, {"etag": etag})
                with part.open("r+b" if start else "wb") as file:
                    file.seek(start)
                    _copy(response, file, start, report)
        except CliError as error:
            # 416 means that the partial file is already complete.
            if error.code not in {"range_not_satisfiable", "http_416"}:
                raise
        return etag

    def _open(self, headers: dict[str, str]) -> AbstractContextManager[httpx2.Response]:
        return self.session.api.stream(
            self.path,
            self.params,
            bearer=self.session.bearer(),
            headers={"Accept": "*/*", "Accept-Encoding": "identity", **headers},
        )


def _copy(response: httpx2.Response, file: BinaryIO, start: int, report: ReportProgress) -> None:
    done, total = start, _total_bytes(response)
    for chunk in response.iter_bytes():
        file.write(chunk)
        done += len(chunk)
        report(done, total)


def _total_bytes(response: httpx2.Response) -> int | None:
    total = response.headers.get("content-range", "").rpartition("/")[2]
    if not total and response.status_code == 200:
        total = response.headers.get("content-length", "")
    return int(total) if total.isdecimal() else None


def _check_sha256(part: Path, etag: str) -> None:
    """Raise CliError and delete the file if its SHA-256 differs from an ETag that is one."""
    match = _SHA256_TAG.fullmatch(etag)
    if match is None:
        return
    with part.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != match[1]:
        part.unlink()
        raise CliError(
            "damaged",
            "The downloaded content does not match the SHA-256 of the blob.",
            exit_code=errors.PROTOCOL,
            next_step="Run the same command again: it downloads the blob from the beginning.",
        )


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
    uri = _parse_blob_argument(blob_id)
    path = output or Path(re.sub(r"[^\w.-]", "_", uri.name, flags=re.ASCII).lstrip(".") or "blob")
    params = query_params(connection_id=select_connection(uri, connection))
    download = Download(session, f"{ROUTE}{path_segment(uri.name)}", params)
    with progress_bar(f"Saving {path}", quiet=session.out.as_json, in_bytes=True) as report:
        if str(path) == "-":
            download.write_to(sys.stdout.buffer, report)
            return
        reject_existing(path, replace=replace)
        with report_write_errors(path):
            size = download.save(path, report)
    body = {"object": "download", "blob_id": uri.name, "bytes": size, "file": str(path)}
    session.out.result(body, [f"{size} bytes in {path}"])


def _parse_blob_argument(text: str) -> ParsedUri:
    """Parse a pdpp://blob URI, the fetch_url of a record, or a bare id."""
    if text.startswith("pdpp://"):
        uri = parse_id_argument(text)
        if uri.kind != "blob":
            raise usage_error("The URI is not that of a blob.", param="ID")
        return uri
    parts = urlsplit(text)
    if ROUTE in parts.path:
        connection_id = parse_qs(parts.query).get("connection_id", [None])[0]
        blob_id = unquote(parts.path.partition(ROUTE)[2])
        return ParsedUri("blob", name=blob_id, connection_id=connection_id)
    return ParsedUri("blob", None, text, None, {})
