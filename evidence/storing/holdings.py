"""How much there is to erase: rows by kind, before anybody erases them."""

from collections import Counter

from django.db import connection

from evidence.models.connections import Connection
from evidence.storing import passages
from evidence.storing.forgetting import TABLES

BY_STREAM = (
    "evidence_record", "evidence_blob", "evidence_passage", "evidence_searchtext",
    "evidence_recordchange", "evidence_pseudonym",
)  # fmt: skip


def holdings(
    connection_id: str, *, stream: str | None = None, record_key: str | None = None
) -> Counter[str]:
    """What a connection, a stream of it or one record consists of."""
    condition, values = "connection_id = %s", [connection_id]
    if stream is not None:
        condition, values = condition + " AND stream = %s", [*values, stream]
    if record_key is not None:
        condition, values = condition + " AND record_key = %s", [*values, record_key]
    found: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for table, kind in TABLES.items():
            if stream is not None and table not in BY_STREAM:
                continue
            if table == "evidence_passage" and not passages.exists():
                continue
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {condition}", values)  # noqa: S608 - constants
            found[kind] = cursor.fetchone()[0]
    return +found


def everything(owner_id: str) -> Counter[str]:
    """The same for all connections of an owner, and how many they are."""
    ids = list(Connection.unscoped.filter(owner_id=owner_id).values_list("pk", flat=True))
    found = sum((holdings(connection_id) for connection_id in ids), Counter[str]())
    found["connections"] = len(ids)
    return +found
