"""`pdpp schema [STREAM]`: what this token can ask for."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from cli.options import Connection, params
from cli.output import line, table
from cli.session import Session, command

LEGEND = (
    "t= type, eq exact filter, r= range filters, lex/sem searchable, a= aggregations, "
    "g=false not granted"
)


@command
def schema(
    session: Session,
    stream: Annotated[str | None, typer.Argument(metavar="STREAM")] = None,
    *,
    connection: Connection = None,
    full: Annotated[
        bool, typer.Option("--full", help="Whole JSON Schemas, of one STREAM.")
    ] = False,
) -> None:
    """Show streams, fields and what they can do."""
    detail = {"detail": "full"} if full else {"view": "compact"}
    body = session.get("/v1/schema", params(**detail, stream=stream, connection_id=connection))
    session.out.body(body, _people(session, body, named=stream is not None))


def _people(session: Session, body: Mapping[str, Any], *, named: bool) -> Iterator[str]:
    for source in body.get("connectors") or ():
        yield line(source.get("display_name") or source.get("connector_key"))
        for connection in source.get("granted_connections") or ():
            yield f"  {line(connection.get('connection_id'))}  {_label(connection)}"
        for stream in source.get("streams") or ():
            yield from _stream(stream, named=named)
        yield ""
    yield LEGEND if named else f"One stream in full: {session.line('schema', 'STREAM')}"


def _stream(stream: Mapping[str, Any], *, named: bool) -> Iterator[str]:
    fields = stream.get("field_capabilities") or {}
    yield f"  {line(stream.get('name'))}  ({len(fields)} fields)"
    for connection in stream.get("granted_connections") or ():
        yield f"    {line(connection.get('connection_id'))}  {_label(connection)}"
    if named:
        rows = [(name, _capability(flags)) for name, flags in fields.items()]
        yield from (f"    {row}" for row in table(["FIELD", "CAN"], rows))
        for relation in stream.get("expand_capabilities") or ():
            yield f"    --expand {line(relation.get('name'))}  ({_target(relation)})"
    else:
        yield f"    {line(', '.join(fields), most=100)}"


def _capability(flags: object) -> object:
    """A word of flags, or the whole description where the server sends no compact one."""
    if not isinstance(flags, dict):
        return flags
    return ",".join(name for name, value in flags.items() if value is True) or flags.get("type", "")


def _target(relation: Mapping[str, Any]) -> str:
    return line(relation.get("target_stream") or relation.get("stream"))


def _label(connection: Mapping[str, Any]) -> str:
    return line(connection.get("display_name") or "")


HEADS = ("STREAM", "RECORDS", "UPDATED", "CONNECTION", "LABEL")


@command
def streams(session: Session, *, connection: Connection = None) -> None:
    """List the streams of each connection."""
    body = session.get("/v1/streams", params(connection_id=connection))
    session.out.body(body, table(HEADS, [_row(stream) for stream in body.get("data") or ()]))


def _row(stream: dict[str, Any]) -> tuple[object, ...]:
    return (
        stream.get("name"),
        stream.get("record_count", ""),
        stream.get("last_updated") or "",
        stream.get("connection_id") or "",
        stream.get("display_name") or "",
    )
