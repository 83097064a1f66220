"""`pdpp records STREAM`: a page of records."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.options import (
    Connection,
    Cursor,
    Expand,
    ExpandLimit,
    Fields,
    Filters,
    Given,
    Limit,
    Stream,
    View,
    expansions,
    filters,
    given,
    params,
)
from cli.output import paging, record_lines
from cli.references import segment
from cli.session import Session, command

Sort = Annotated[
    str | None, typer.Option("--sort", metavar="FIELD", help="- before it for descending.")
]
Count = Annotated[
    str | None, typer.Option("--count", help="none, estimated or exact: of all matches.")
]
Window = Annotated[
    str | None, typer.Option("--window", help="exact: first and last time of all matches.")
]
CUT = 120
"""How much of a text a list shows; `pdpp fetch` and `pdpp field` show all of it."""


@command
def records(
    session: Session,
    stream: Stream,
    *,
    connection: Connection = None,
    fields: Fields = None,
    view: View = None,
    filter_: Filters = None,
    sort: Sort = None,
    order: Annotated[str | None, typer.Option("--order", help="asc or desc.")] = None,
    count: Count = None,
    window: Window = None,
    limit: Limit = 25,
    cursor: Cursor = None,
    expand: Expand = None,
    expand_limit: ExpandLimit = None,
    param: Given = None,
) -> None:
    """List the records of a stream.

    Newest first, page by page. To have all of them, see export.
    """
    asked = params(
        connection_id=connection,
        fields=fields,
        view=view,
        sort=sort,
        order=order,
        count=count,
        window=window,
        limit=limit,
        cursor=cursor,
    )
    asked += filters(filter_) + expansions(expand, expand_limit) + given(param)
    body = session.get(f"/v1/streams/{segment(stream)}/records", asked)
    session.out.body(body, _print_records(body))


def _print_records(body: dict[str, Any]) -> Iterator[str]:
    for record in body.get("data") or ():
        yield from record_lines(record, most=CUT)
    if extent := (body.get("meta") or {}).get("window"):
        yield f"from {extent.get('earliest_at')} to {extent.get('latest_at')}"
    yield from paging(body)


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
    session.out.body(body, _print_changes(body))


def _print_changes(body: dict[str, Any]) -> Iterator[str]:
    for record in body.get("data") or ():
        yield from record_lines(record, most=CUT)
    yield from paging(body)
