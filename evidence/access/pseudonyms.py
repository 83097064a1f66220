"""Find pseudonyms and erased records, for the ledger."""

from collections.abc import Sequence
from typing import Any

from evidence.access.sql import SQL, fetch_prepared, value_table
from evidence.models.owners import current_owner

RECORD_KEY = dict.fromkeys(("connection_id", "stream", "record_key"), "text")


def find_erased(records: Sequence[tuple[str, str, str]]) -> SQL:
    """Return a subquery with a row for each (connection id, stream, key) that no longer exists."""
    return (
        SQL("SELECT 1 FROM ")
        + value_table("n", RECORD_KEY, records)
        + SQL(
            " WHERE (SELECT true FROM evidence_record r"
            " WHERE r.owner_id = %s AND r.connection_id = n.connection_id"
            " AND r.stream = n.stream AND r.record_key = n.record_key) IS NULL",
            (current_owner(),),
        )
    )


def fetch_pseudonyms(records: Sequence[tuple[str, str, str]]) -> Sequence[tuple[Any, ...]]:
    """Return connection id, stream, key, pseudonym and nonce of those records that have a pseudonym."""
    statement = (
        SQL("SELECT p.connection_id, p.stream, p.record_key, p.pseudonym, p.nonce FROM ")
        + value_table("n", RECORD_KEY, records)
        + SQL(
            " JOIN evidence_pseudonym p ON p.owner_id = %s AND p.connection_id = n.connection_id"
            " AND p.stream = n.stream AND p.record_key = n.record_key",
            (current_owner(),),
        )
    )
    return fetch_prepared(statement)
