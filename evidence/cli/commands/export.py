"""`pdpp export STREAM`: every record that the grant covers, as NDJSON."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from evidence.cli import exits
from evidence.cli.asking import (
    Connection,
    Fields,
    Filters,
    Given,
    Stream,
    View,
    filters,
    given,
    params,
)
from evidence.cli.exporting import Export, Place, to_file, to_stream
from evidence.cli.failures import Failure
from evidence.cli.files import beside, refuse_existing, writable
from evidence.cli.progress import Advance, progress
from evidence.cli.references import segment
from evidence.cli.session import Session, command

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
        elif failure.exit_code in {exits.UNAVAILABLE, exits.TRY_LATER}:
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
