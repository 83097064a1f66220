"""`pdpp records STREAM` and `pdpp changes STREAM`: list records, or what changed since a bookmark."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.output import page_lines, record_lines
from cli.session import (
    After,
    Before,
    Connection,
    Cursor,
    Expand,
    ExpandLimit,
    ExtraParams,
    Fields,
    Filters,
    Limit,
    Session,
    Stream,
    View,
    command,
    expand_params,
    extra_params,
    filter_params,
    query_params,
)
from evidence.record_ids import path_segment

Sort = Annotated[
    str | None, typer.Option("--sort", metavar="FIELD", help="-FIELD sorts in descending order.")
]
Count = Annotated[
    str | None, typer.Option("--count", help="Count all matches: none, estimated or exact.")
]
Window = Annotated[
    str | None, typer.Option("--window", help="exact: first and last time of all matches.")
]
SINCE = typer.Option(
    "--since", metavar="BOOKMARK", help="next_changes_since of the previous page, not a date."
)
VALUE_MAX_CHARS = 120
"""How much of a value a list shows. `pdpp fetch` and `pdpp field` show all of it."""


@command
def records(
    session: Session,
    stream: Stream,
    *,
    connection: Connection = None,
    fields: Fields = None,
    view: View = None,
    filter_: Filters = None,
    after: After = None,
    before: Before = None,
    sort: Sort = None,
    order: Annotated[str | None, typer.Option("--order", help="asc or desc.")] = None,
    count: Count = None,
    window: Window = None,
    limit: Limit = 25,
    cursor: Cursor = None,
    expand: Expand = None,
    expand_limit: ExpandLimit = None,
    param: ExtraParams = None,
) -> None:
    """List the records of a stream, newest first.

    Use pdpp export to save all of them.
    """
    params = query_params(
        connection_id=connection,
        fields=fields,
        view=view,
        after=after,
        before=before,
        sort=sort,
        order=order,
        count=count,
        window=window,
        limit=limit,
        cursor=cursor,
    )
    params += filter_params(filter_) + expand_params(expand, expand_limit) + extra_params(param)
    _print_page(session, stream, params)


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
    param: ExtraParams = None,
) -> None:
    """List changed and deleted records since a bookmark.

    The last line shows the bookmark for the next call.
    """
    params = query_params(
        changes_since=since, connection_id=connection, fields=fields, view=view, limit=limit
    )
    _print_page(session, stream, params + extra_params(param))


def _print_page(session: Session, stream: str, params: list[tuple[str, str]]) -> None:
    body = session.get(f"/v1/streams/{path_segment(stream)}/records", params)
    session.out.result(body, _lines(body))


def _lines(body: dict[str, Any]) -> Iterator[str]:
    for record in body.get("data") or ():
        yield from record_lines(record, max_chars=VALUE_MAX_CHARS)
    if window := (body.get("meta") or {}).get("window"):
        yield f"from {window.get('earliest_at')} to {window.get('latest_at')}"
    yield from page_lines(body)
