"""Delete every row of a connection or owner, in bounded transactions.

The connection is revoked first, so that nobody reads or writes it, and its own row is deleted last,
so that an interrupted deletion can be resumed.
"""

from collections import Counter
from collections.abc import Mapping

from django.db import connection, transaction

from evidence.models.connections import Connection, EmbeddedStream
from evidence.models.owners import Owner, current_owner
from evidence.models.sources import Source, SourceDeclaration
from evidence.write import app_data, vector_table
from evidence.write.locks import lock_connection

# In foreign key order. Every table has a connection_id, the only partition key in use, so a ctid is
# unique among the rows of one connection.
TABLES: Mapping[str, str] = {
    "evidence_blobchunk": "pieces of files",
    "evidence_blob": "files",
    "evidence_passage": "vectors",
    "evidence_searchtext": "search texts",
    "evidence_recordchange": "history entries",
    "evidence_record": "records",
    "evidence_suppression": "entries of the list of erased records",
    "evidence_disclosedrecord": "names in the ledger",
    "evidence_retention": "retention periods",
    "evidence_streamstate": "stream counters",
    "evidence_collectorstate": "collector states",
    "evidence_watchedstream": "followed streams",
    "evidence_event": "events",
}


def connection_tables() -> dict[str, str]:
    """Return the tables of connections, of evidence and of other apps, and the kinds of their rows."""
    return {**app_data.connection_tables(), **TABLES}


DELETE_BATCH_SIZE = 5_000
CHUNK_BATCH_SIZE = 200
"""Chunks have 256 KiB each."""

DELETE_ALL = "DELETE FROM {table} WHERE owner_id = %s AND connection_id = %s"
DELETE_SOME = """
DELETE FROM {table} WHERE owner_id = %s AND connection_id = %s AND ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE owner_id = %s AND connection_id = %s LIMIT %s
))
"""
DELETE_ADMIN_LOG = """
DELETE FROM django_admin_log l USING django_content_type t
WHERE t.id = l.content_type_id AND t.app_label = 'evidence' AND t.model = 'connection'
    AND l.object_id = %s
"""


def delete_some_rows(connection_id: str) -> Counter[str]:
    """Delete some rows of a connection and return their number by kind; the first call revokes it.

    Empty when only the connection itself is left. Raises ``ConnectionNotFound``.
    """
    key = [current_owner(), connection_id]
    for table, kind in connection_tables().items():
        with transaction.atomic():
            _revoke(connection_id)
            if table == "evidence_passage":
                EmbeddedStream.unscoped.filter(connection_id=connection_id).delete()
                if not vector_table.exists():
                    continue
            limit = CHUNK_BATCH_SIZE if table == "evidence_blobchunk" else DELETE_BATCH_SIZE
            with connection.cursor() as cursor:
                cursor.execute(DELETE_SOME.format(table=table), [*key, *key, limit])
                if cursor.rowcount:
                    return Counter({kind: cursor.rowcount})
    return Counter()


def delete_connection(connection_id: str) -> Counter[str]:
    """Delete the connection itself, and rows added since ``delete_some_rows`` found none.

    Raises ``ConnectionNotFound``.
    """
    removed: Counter[str] = Counter()
    key = [current_owner(), connection_id]
    with transaction.atomic(), connection.cursor() as cursor:
        _revoke(connection_id)
        vector_table.delete_stream_vectors(connection_id)
        for table, kind in connection_tables().items():
            if table != "evidence_passage":
                cursor.execute(DELETE_ALL.format(table=table), key)
                removed[kind] += cursor.rowcount
        cursor.execute(DELETE_ADMIN_LOG, [connection_id])
        cursor.execute(DELETE_ALL.format(table="evidence_connection"), key)
        for data in app_data.registered():
            data.connection_deleted()
    removed["connections"] += 1
    return +removed


def revoke_connections(owner_id: str) -> list[str]:
    """Revoke every connection of an owner, and return their ids."""
    connections = Connection.unscoped.filter(owner_id=owner_id)
    connections.update(status=Connection.Status.REVOKED)
    return list(connections.order_by("pk").values_list("pk", flat=True))


def owner_account_id(owner_id: str) -> int | None:
    """Return the id of the account that the owner signs in with."""
    return Owner.unscoped.values_list("user_id", flat=True).get(pk=owner_id)


@transaction.atomic
def delete_owner_data(owner_id: str) -> Counter[str]:
    """Delete an owner's rows other than connections and grants.

    The owner's row stays, without personal data, because the ledger and receipts refer to it.
    """
    sources = Source.unscoped.filter(owner_id=owner_id)
    sources.update(current_declaration=None)
    removed = Counter(
        {
            "declarations": SourceDeclaration.unscoped.filter(source__in=sources).delete()[0],
            "sources": sources.delete()[0],
        }
    )
    Owner.unscoped.filter(pk=owner_id).update(user=None, display_name="Owner")
    return +removed


def _revoke(connection_id: str) -> None:
    lock_connection(connection_id)
    Connection.unscoped.filter(connection_id=connection_id).update(status=Connection.Status.REVOKED)
