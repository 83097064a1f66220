"""`pdpp changes STREAM`: what has changed since a bookmark."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from evidence.cli.asking import Connection, Fields, Given, Limit, Stream, View, given, params
from evidence.cli.commands.records import CUT
from evidence.cli.pages import paging
from evidence.cli.records import record_lines
from evidence.cli.references import segment
from evidence.cli.session import Session, command

SINCE = typer.Option(
    "--since", metavar="BOOKMARK", help="next_changes_since of the last page; never a date."
)


@command
def changes(
    session: Session,
    stream: Stream,
    *,
    since: Annotated[str, SINCE] = "beginning",
    connection: Connection = None,
    fields: Fields = None,
    view: View = None,
    limit: Limit = 100,
    param: Given = None,
) -> None:
    """List what has changed since a bookmark.

    Changed and deleted records, and the bookmark from which to go on.
    """
    asked = params(
        changes_since=since, connection_id=connection, fields=fields, view=view, limit=limit
    )
    body = session.get(f"/v1/streams/{segment(stream)}/records", asked + given(param))
    session.out.body(body, _people(body))


def _people(body: dict[str, Any]) -> Iterator[str]:
    for record in body.get("data") or ():
        yield from record_lines(record, most=CUT)
    yield from paging(body)
