"""`pdpp streams`: the streams that this token can read, connection by connection."""

from typing import Any

from evidence.cli.asking import Connection, params
from evidence.cli.output import table
from evidence.cli.session import Session, command

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
