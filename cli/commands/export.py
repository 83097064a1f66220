"""`pdpp export STREAM`: every record that the grant covers, as NDJSON."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeAlias

import typer

from cli import errors
from cli.errors import Failure
from cli.http_client import Json, Params, patiently
from cli.options import Connection, Fields, Filters, Given, Stream, View, filters, given, params
from cli.partial_files import (
    Advance,
    beside,
    progress,
    refuse_existing,
    remember,
    remembered,
    writable,
)
from cli.references import segment
from cli.session import Session, command

PAGE = "100"
ReadPage: TypeAlias = Callable[[Params], Json]
"""One page of the stream's records; raises `Failure`."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far an export has come. `total` counts what the connections begun so far hold."""

    query: str
    connection: int = 0
    cursor: str | None = None
    size: int = 0
    records: int = 0
    total: int | None = 0


@dataclass(frozen=True, slots=True)
class Export:
    """What to export: the connections in turn (None is all at once) under the same parameters."""

    read: ReadPage
    connections: Sequence[str | None]
    params: Params

    @property
    def query(self) -> str:
        """Tells one export from another."""
        asked = json.dumps([list(self.connections), [list(pair) for pair in self.params]])
        return hashlib.sha256(asked.encode()).hexdigest()


def to_file(export: Export, path: Path, advance: Advance) -> Place:
    """Write or finish writing the file; gives the place at the end."""
    part, resume = beside(path, ".part"), beside(path, ".resume")
    place = resumed(export, part, resume)
    with part.open("r+b" if place.size else "wb") as file:
        file.truncate(place.size)
        file.seek(place.size)
        while place.connection < len(export.connections):
            place = _page(export, place, file)
            file.flush()
            os.fsync(file.fileno())
            remember(resume, asdict(place))
            advance(place.records, place.total)
    part.replace(path)
    resume.unlink(missing_ok=True)
    return place


def to_stream(export: Export, file: BinaryIO, advance: Advance) -> Place:
    """Write to a pipe, from the beginning."""
    place = Place(export.query)
    while place.connection < len(export.connections):
        place = _page(export, place, file)
        advance(place.records, place.total)
    file.flush()
    return place


def resumed(export: Export, part: Path, resume: Path) -> Place:
    """Where an interrupted export of the very same goes on; the beginning otherwise."""
    state = remembered(resume)
    try:
        place = Place(**state)
    except TypeError:
        return Place(export.query)
    if place.query != export.query or not part.exists() or part.stat().st_size < place.size:
        return Place(export.query)
    return place


def _page(export: Export, place: Place, file: BinaryIO) -> Place:
    body = patiently(lambda: export.read(_params(export, place)))
    lines = [json.dumps(record, ensure_ascii=False) for record in body.get("data") or ()]
    written = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    file.write(written)
    reached = replace(
        place,
        size=place.size + len(written),
        records=place.records + len(lines),
        total=_total(place, body),
        cursor=body.get("next_cursor"),
    )
    if body.get("has_more"):
        return _going_on(reached)
    return replace(reached, connection=place.connection + 1, cursor=None)


def _going_on(place: Place) -> Place:
    if place.cursor is None:
        raise Failure(
            "incomplete",
            "The server has more records, but no cursor that leads to them.",
            exit_code=errors.NOT_WRITTEN,
            next_step="Export one connection at a time with --connection; pdpp streams lists them.",
        )
    return place


def _params(export: Export, place: Place) -> list[tuple[str, str]]:
    """Oldest first, so that what arrives meanwhile comes at the end and is not missed."""
    connection = export.connections[place.connection]
    pairs = [*export.params, ("limit", PAGE), ("order", "asc")]
    if connection is not None:
        pairs.append(("connection_id", connection))
    if place.cursor is None:
        return [*pairs, ("count", "exact")]
    return [*pairs, ("cursor", place.cursor)]


def _total(place: Place, body: dict[str, Any]) -> int | None:
    if place.cursor is not None or place.total is None:
        return place.total
    count = ((body.get("meta") or {}).get("count") or {}).get("value")
    return place.total + count if isinstance(count, int) else None


OUTPUT = typer.Option("--output", "-o", metavar="FILE", help="Else STREAM.ndjson; - for a pipe.")
RESTART = typer.Option("--restart", help="Begin anew instead of resuming an interrupted export.")
REPLACE = typer.Option("--replace", help="Replace the file if it exists.")


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
    param: Given = None,
    restart: Annotated[bool, RESTART] = False,
    replace: Annotated[bool, REPLACE] = False,
) -> None:
    """Save a whole stream. Run the same command again to resume it after an interruption."""
    path = output or Path(f"{segment(stream)}.ndjson")
    asked = params(fields=fields, view=view) + filters(filter_) + given(param)
    wanted = Export(
        lambda pairs: session.get(f"/v1/streams/{segment(stream)}/records", pairs),
        [connection] if connection else connections(session, stream),
        asked,
    )
    with progress(f"Exporting {stream}", quiet=session.out.as_json) as advance:
        if str(path) == "-":
            place = to_stream(wanted, sys.stdout.buffer, advance)
        else:
            refuse_existing(path, replace=replace)
            with writable(path):
                if restart:
                    beside(path, ".resume").unlink(missing_ok=True)
                place = resumable(wanted, path, advance)
    _say(session, place, path)


def connections(session: Session, stream: str) -> list[str | None]:
    """The connections that have the stream; all at once where the server does not say."""
    rows = session.get("/v1/streams").get("data") or ()
    named = [row.get("connection_id") for row in rows if row.get("name") == stream]
    found = sorted({each for each in named if isinstance(each, str)})
    return list(found) or [None]


def resumable(wanted: Export, path: Path, advance: Advance) -> Place:
    """The export, with a word on how to go on where its page has gone."""
    try:
        return to_file(wanted, path, advance)
    except Failure as failure:
        if failure.code in {"invalid_cursor", "cursor_expired"}:
            failure.next_step = "The interrupted export cannot be resumed: pass --restart."
        elif failure.exit_code in {errors.UNAVAILABLE, errors.TRY_LATER}:
            failure.next_step = "Run the same command again: it goes on where it stopped."
        raise


def _say(session: Session, place: Place, path: Path) -> None:
    told = {"object": "export", "records": place.records, "bytes": place.size, "file": str(path)}
    if str(path) != "-":
        session.out.body(told, [f"{place.records} records in {path}"])
    if place.total is not None and place.total != place.records:
        session.out.note(
            f"The stream changed meanwhile: it had {place.total} records at the beginning."
        )
