"""Read the stored tables without the code under test."""

import json
from typing import Any

from django.db import connection

from evidence.models.connections import Connection, StreamState
from evidence.models.records import Record, RecordChange, SearchText


def record(connection_id: str, key: str, stream: str = "messages") -> Record | None:
    return Record.unscoped.filter(
        connection_id=connection_id, stream=stream, record_key=key
    ).first()


def data(connection_id: str, key: str, stream: str = "messages") -> Any:
    found = record(connection_id, key, stream)
    return found and found.data


def changes(connection_id: str, key: str | None = None) -> list[RecordChange]:
    rows = RecordChange.unscoped.filter(connection_id=connection_id)
    if key is not None:
        rows = rows.filter(record_key=key)
    return list(rows.order_by("seq"))


def kinds(connection_id: str, key: str | None = None) -> str:
    """Return kinds of changes, such as "cud": created, updated, deleted."""
    return "".join(change.kind for change in changes(connection_id, key))


def change_seq(connection_id: str) -> int:
    return Connection.unscoped.get(connection_id=connection_id).change_seq


def terms(connection_id: str, key: str, stream: str = "messages") -> set[str]:
    """Return the terms of a record's search text, without field and tier."""
    row = SearchText.unscoped.filter(
        connection_id=connection_id, stream=stream, record_key=key
    ).first()
    if row is None:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT unnest(tsvector_to_array(terms)) FROM evidence_searchtext"
            " WHERE connection_id = %s AND stream = %s AND record_key = %s",
            [connection_id, stream, key],
        )
        return {lexeme.lstrip("abcdefghijklmnopqrstuvwxyz")[1:] for (lexeme,) in cursor}


def counts() -> dict[tuple[str, str], int]:
    """Return stored record counts of streams with records."""
    rows = StreamState.unscoped.exclude(record_count=0)
    return {(each.connection_id, each.stream): each.record_count for each in rows}


def true_counts() -> dict[tuple[str, str], int]:
    """Count the records of each stream."""
    found: dict[tuple[str, str], int] = {}
    for connection_id, stream in Record.unscoped.values_list("connection_id", "stream"):
        found[connection_id, stream] = found.get((connection_id, stream), 0) + 1
    return found


def everything() -> str:
    """Return all rows that imports write, as text, to detect writes."""
    found = {}
    with connection.cursor() as cursor:
        for table in (
            "evidence_record",
            "evidence_recordchange",
            "evidence_searchtext",
            "evidence_streamstate",
            "evidence_connection",
        ):
            cursor.execute(f"SELECT t::text FROM {table} t ORDER BY 1")  # noqa: S608 - constants
            found[table] = cursor.fetchall()
    return json.dumps(found)
