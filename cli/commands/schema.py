"""`pdpp schema [STREAM]` and `pdpp streams`: show what the token can read and query."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from cli.output import one_line, table
from cli.session import Connection, Session, command, query_params

LEGEND = (
    "t= type, eq exact filter, r= range filters, lex/sem searchable, a= aggregations, "
    "g=false not granted"
)
HEADINGS = ("STREAM", "RECORDS", "UPDATED", "CONNECTION", "LABEL")


@command
def schema(
    session: Session,
    stream: Annotated[str | None, typer.Argument(metavar="STREAM")] = None,
    *,
    connection: Connection = None,
    full: Annotated[
        bool, typer.Option("--full", help="Complete JSON Schemas, of one STREAM.")
    ] = False,
) -> None:
    """Show streams, fields and how they can be queried."""
    detail = {"detail": "full"} if full else {"view": "compact"}
    params = query_params(**detail, stream=stream, connection_id=connection)
    body = session.get("/v1/schema", params)
    session.out.result(body, _lines(session, body, show_fields=stream is not None))


def _lines(session: Session, body: Mapping[str, Any], *, show_fields: bool) -> Iterator[str]:
    for source in body.get("connectors") or ():
        yield one_line(source.get("display_name") or source.get("connector_key"))
        for connection in source.get("granted_connections") or ():
            yield f"  {_connection(connection)}"
        for stream in source.get("streams") or ():
            yield from _stream_lines(stream, show_fields=show_fields)
        yield ""
    if show_fields:
        yield LEGEND
    else:
        yield f"One stream in full: {session.command_line('schema', 'STREAM')}"


def _stream_lines(stream: Mapping[str, Any], *, show_fields: bool) -> Iterator[str]:
    fields = stream.get("field_capabilities") or {}
    yield f"  {one_line(stream.get('name'))}  ({len(fields)} fields)"
    for connection in stream.get("granted_connections") or ():
        yield f"    {_connection(connection)}"
    if not show_fields:
        yield f"    {one_line(', '.join(fields), max_chars=100)}"
        return
    rows = [(name, _capabilities(flags)) for name, flags in fields.items()]
    yield from (f"    {row}" for row in table(["FIELD", "CAPABILITIES"], rows))
    for relation in stream.get("expand_capabilities") or ():
        target = one_line(relation.get("target_stream") or relation.get("stream"))
        yield f"    --expand {one_line(relation.get('name'))}  ({target})"


def _capabilities(flags: object) -> object:
    """Return compact flags as sent, or those that are true in a complete description."""
    if not isinstance(flags, dict):
        return flags
    return ",".join(name for name, value in flags.items() if value is True) or flags.get("type", "")


def _connection(connection: Mapping[str, Any]) -> str:
    label = one_line(connection.get("display_name") or "")
    return f"{one_line(connection.get('connection_id'))}  {label}"


@command
def streams(session: Session, *, connection: Connection = None) -> None:
    """List the streams of each connection."""
    body = session.get("/v1/streams", query_params(connection_id=connection))
    session.out.result(body, table(HEADINGS, [_row(stream) for stream in body.get("data") or ()]))


def _row(stream: dict[str, Any]) -> tuple[object, ...]:
    return (
        stream.get("name"),
        stream.get("record_count", ""),
        stream.get("last_updated") or "",
        stream.get("connection_id") or "",
        stream.get("display_name") or "",
    )
