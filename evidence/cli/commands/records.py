"""`pdpp records STREAM`: a page of records."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from evidence.cli.asking import (
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
from evidence.cli.pages import paging
from evidence.cli.records import record_lines
from evidence.cli.references import segment
from evidence.cli.session import Session, command

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
    session.out.body(body, _people(body))


def _people(body: dict[str, Any]) -> Iterator[str]:
    for record in body.get("data") or ():
        yield from record_lines(record, most=CUT)
    if extent := (body.get("meta") or {}).get("window"):
        yield f"from {extent.get('earliest_at')} to {extent.get('latest_at')}"
    yield from paging(body)
