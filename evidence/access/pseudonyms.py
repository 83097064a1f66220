"""Find pseudonyms and erased records, for the ledger."""

from collections.abc import Iterable, Sequence
from typing import Any

from evidence.access.sql import SQL, fetch_union, value_tables

RECORD_KEY = dict.fromkeys(("connection_id", "stream", "record_key"), "text")


def find_erased(records: Iterable[tuple[str, str, str]]) -> list[SQL]:
    """Return subqueries with a row for each (connection id, stream, key) that no longer exists."""
    missing = SQL(
        " WHERE (SELECT true FROM evidence_record r WHERE r.connection_id = n.connection_id"
        " AND r.stream = n.stream AND r.record_key = n.record_key) IS NULL"
    )
    tables = value_tables("n", RECORD_KEY, records)
    return [SQL("SELECT 1 FROM ") + table + missing for table in tables]


def fetch_pseudonyms(records: Sequence[tuple[str, str, str]]) -> list[tuple[Any, ...]]:
    """Return connection id, stream, key, pseudonym and nonce of those records that have a pseudonym."""
    columns = SQL("SELECT p.connection_id, p.stream, p.record_key, p.pseudonym, p.nonce FROM ")
    named = SQL(
        " JOIN evidence_pseudonym p ON p.connection_id = n.connection_id"
        " AND p.stream = n.stream AND p.record_key = n.record_key"
    )
    tables = value_tables("n", RECORD_KEY, records) if records else ()
    return fetch_union(columns + table + named for table in tables)
