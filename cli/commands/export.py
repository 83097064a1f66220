"""`pdpp export STREAM`: save all granted records as NDJSON, resumable after the last complete page."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from cli import errors
from cli.errors import CliError
from cli.http_client import Json, Params, with_retries
from cli.output import one_line
from cli.partial_files import (
    ReportProgress,
    load_state,
    progress_bar,
    reject_existing,
    report_write_errors,
    save_state,
    sibling_path,
)
from cli.session import (
    Connection,
    ExtraParams,
    Fields,
    Filters,
    Session,
    Stream,
    View,
    command,
    extra_params,
    filter_params,
    query_params,
)
from evidence.record_ids import path_segment

PAGE_SIZE = "100"
OUTPUT = typer.Option(
    "--output", "-o", metavar="FILE", help="Default: STREAM.ndjson; - for a pipe."
)
RESTART = typer.Option("--restart", help="Start again instead of resuming an interrupted export.")
REPLACE = typer.Option("--replace", help="Replace the file if it exists.")


@dataclass(frozen=True, slots=True)
class ExportProgress:
    """How far an export has come. `total` counts the records of the connections begun so far."""

    query: str
    connection: int = 0
    cursor: str | None = None
    size: int = 0
    records: int = 0
    total: int | None = 0


@dataclass(frozen=True, slots=True)
class Export:
    """What to export: one connection after another, where None means all at once."""

    read_page: Callable[[Params], Json]
    connections: Sequence[str | None]
    params: Params

    @property
    def query(self) -> str:
        """A hash of connections and parameters, which identifies the export."""
        identity = json.dumps([list(self.connections), [list(pair) for pair in self.params]])
        return hashlib.sha256(identity.encode()).hexdigest()

    def save(self, path: Path, report: ReportProgress) -> ExportProgress:
        """Write the records to a file, resuming a partial one."""
        part, state = sibling_path(path, ".part"), sibling_path(path, ".resume")
        progress = self._load_progress(part, state)
        with part.open("r+b" if progress.size else "wb") as file:
            file.truncate(progress.size)
            file.seek(progress.size)
            while progress.connection < len(self.connections):
                progress = self._write_page(progress, file)
                file.flush()
                os.fsync(file.fileno())
                save_state(state, asdict(progress))
                report(progress.records, progress.total)
        part.replace(path)
        state.unlink(missing_ok=True)
        return progress

    def write_to(self, file: BinaryIO, report: ReportProgress) -> ExportProgress:
        """Write the records to a pipe."""
        progress = ExportProgress(self.query)
        while progress.connection < len(self.connections):
            progress = self._write_page(progress, file)
            report(progress.records, progress.total)
        file.flush()
        return progress

    def _load_progress(self, part: Path, state: Path) -> ExportProgress:
        """Return the progress of an interrupted export with the same query, or the start."""
        start = ExportProgress(self.query)
        try:
            progress = ExportProgress(**load_state(state))
        except TypeError:
            return start
        if progress.query != self.query or not part.exists():
            return start
        return start if part.stat().st_size < progress.size else progress

    def _write_page(self, progress: ExportProgress, file: BinaryIO) -> ExportProgress:
        body = with_retries(lambda: self.read_page(self._page_params(progress)))
        lines = [json.dumps(record, ensure_ascii=False) for record in body.get("data") or ()]
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
        file.write(content)
        progress = replace(
            progress,
            size=progress.size + len(content),
            records=progress.records + len(lines),
            total=_total(progress, body),
            cursor=body.get("next_cursor"),
        )
        if not body.get("has_more"):
            return replace(progress, connection=progress.connection + 1, cursor=None)
        if progress.cursor is None:
            raise CliError(
                "incomplete",
                "The server has more records but sent no cursor.",
                exit_code=errors.NOT_WRITTEN,
                next_step="Export one connection at a time with --connection; "
                "pdpp streams lists them.",
            )
        return progress

    def _page_params(self, progress: ExportProgress) -> list[tuple[str, str]]:
        # Oldest first, so that records that arrive during the export come last and are included.
        pairs = [*self.params, ("limit", PAGE_SIZE), ("order", "asc")]
        connection = self.connections[progress.connection]
        if connection is not None:
            pairs.append(("connection_id", connection))
        if progress.cursor is None:
            return [*pairs, ("count", "exact")]
        return [*pairs, ("cursor", progress.cursor)]


def _total(progress: ExportProgress, body: dict[str, Any]) -> int | None:
    if progress.cursor is not None or progress.total is None:
        return progress.total
    count = ((body.get("meta") or {}).get("count") or {}).get("value")
    return progress.total + count if isinstance(count, int) else None


@command
def export(
    session: Session,
    stream: Stream,
    *,
    output: Annotated[Path | None, OUTPUT] = None,
    connection: Connection = None,
    fields: Fields = None,
    view: View = None,
    filter_: Filters = None,
    param: ExtraParams = None,
    restart: Annotated[bool, RESTART] = False,
    replace: Annotated[bool, REPLACE] = False,
) -> None:
    """Save all records of a stream. Run the same command again to resume after an interruption."""
    path = output or Path(f"{path_segment(stream)}.ndjson")
    sources = {} if connection else _sources(session, stream)
    job = Export(
        lambda params: session.get(f"/v1/streams/{path_segment(stream)}/records", params),
        [connection] if connection else list(sources) or [None],
        query_params(fields=fields, view=view) + filter_params(filter_) + extra_params(param),
    )
    with progress_bar(f"Exporting {stream}", quiet=session.out.as_json) as report:
        if str(path) == "-":
            progress = job.write_to(sys.stdout.buffer, report)
        else:
            reject_existing(path, replace=replace)
            with report_write_errors(path):
                if restart:
                    sibling_path(path, ".resume").unlink(missing_ok=True)
                progress = _save(job, path, report)
    _print_summary(session, progress, path, sources=sorted(set(sources.values())))


def _print_summary(
    session: Session, progress: ExportProgress, path: Path, *, sources: Sequence[str]
) -> None:
    body = {
        "object": "export",
        "records": progress.records,
        "bytes": progress.size,
        "file": str(path),
        "sources": sources,
    }
    if str(path) != "-":
        session.out.result(body, [f"{progress.records} records in {path}"])
    if progress.total is not None and progress.total != progress.records:
        session.out.note(
            f"The stream changed during the export: it had {progress.total} records at the start."
        )
    if len(sources) > 1:
        session.out.note(
            f"The records are of {len(sources)} sources with different fields: "
            f"{one_line(', '.join(sources))}. connection_id tells them apart; "
            "pdpp export --connection ID saves one alone."
        )


def _sources(session: Session, stream: str) -> dict[str, str]:
    """Return the source of each connection that has the stream, if the server lists them."""
    rows = session.get("/v1/streams").get("data") or ()
    found = {
        row["connection_id"]: str(row.get("connector_key") or "")
        for row in rows
        if row.get("name") == stream and isinstance(row.get("connection_id"), str)
    }
    return dict(sorted(found.items()))


def _save(job: Export, path: Path, report: ReportProgress) -> ExportProgress:
    try:
        return job.save(path, report)
    except CliError as error:
        if error.code in {"invalid_cursor", "cursor_expired"}:
            error.next_step = "The interrupted export cannot be resumed: pass --restart."
        elif error.exit_code in {errors.UNAVAILABLE, errors.TRY_LATER}:
            error.next_step = "Run the same command again to resume the export."
        raise
