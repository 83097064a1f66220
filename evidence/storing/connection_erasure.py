"""Taking away all rows of a connection, a bounded number in each transaction.

The connection ends first, so that nothing is read through it or written to it meanwhile; its own
row goes last, so that a run which was cut short can be completed.
"""

from collections import Counter
from collections.abc import Mapping

from django.db import connection, transaction

from evidence.models.accounts import Owner, SetupLink
from evidence.models.connections import Connection, EmbeddedStream
from evidence.models.sources import Source, SourceDeclaration
from evidence.storing import vector_table
from evidence.storing.locks import hold_to_erase

# In this order: what points at a row goes before it. All of them have a connection_id, by which
# they are partitioned where they are, so that a row's place in its table names it.
TABLES: Mapping[str, str] = {
    "evidence_blobchunk": "pieces of files",
    "evidence_blob": "files",
    "evidence_passage": "vectors",
    "evidence_searchtext": "search texts",
    "evidence_recordchange": "history entries",
    "evidence_record": "records",
    "evidence_suppression": "entries of the list of erased records",
    "evidence_pseudonym": "names in the ledger",
    "evidence_importreceipt": "import receipts",
    "evidence_importchoice": "import choices",
    "evidence_importrun": "imports",
    "evidence_retention": "retention periods",
    "evidence_streamstate": "stream counters",
    "evidence_watchedstream": "followed streams",
    "evidence_event": "events",
}
ROWS_AT_ONCE = 5_000
PIECES_AT_ONCE = 200
"""Of a quarter of a megabyte each."""

SOME = """
DELETE FROM {table} WHERE connection_id = %s AND ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE connection_id = %s LIMIT %s
))
"""
EDITS = """
DELETE FROM django_admin_log l USING django_content_type t
WHERE t.id = l.content_type_id AND t.app_label = 'evidence' AND t.model = 'connection'
    AND l.object_id = %s
"""
# It stands by source and may name records; other connections of the source are collected once more.
REMEMBERED = "DELETE FROM evidence_collectorstate WHERE source_id = %s"


def forget_some(connection_id: str) -> Counter[str]:
    """Takes away some rows of a connection, which ends with the first call; how many of each kind.
    Empty when only the connection itself is left. Raises ``ConnectionNotFound``."""
    for table, kind in TABLES.items():
        with transaction.atomic():
            _end(connection_id)
            if table == "evidence_passage":
                EmbeddedStream.unscoped.filter(connection_id=connection_id).delete()
                if not vector_table.exists():
                    continue
            limit = PIECES_AT_ONCE if table == "evidence_blobchunk" else ROWS_AT_ONCE
            with connection.cursor() as cursor:
                cursor.execute(SOME.format(table=table), [connection_id, connection_id, limit])
                if cursor.rowcount:
                    return Counter({kind: cursor.rowcount})
    return Counter()


def forget_connection(connection_id: str) -> Counter[str]:
    """Takes away the connection itself, and whatever came in since the rest went. Raises
    ``ConnectionNotFound``."""
    removed: Counter[str] = Counter()
    with transaction.atomic(), connection.cursor() as cursor:
        _end(connection_id)
        vector_table.forget_streams(connection_id)
        for table, kind in TABLES.items():
            if table != "evidence_passage":
                cursor.execute(f"DELETE FROM {table} WHERE connection_id = %s", [connection_id])  # noqa: S608 - one of TABLES
                removed[kind] += cursor.rowcount
        cursor.execute(EDITS, [connection_id])
        cursor.execute(
            "DELETE FROM evidence_connection WHERE connection_id = %s RETURNING source_id",
            [connection_id],
        )
        cursor.execute(REMEMBERED, cursor.fetchone())
        removed["collector states"] += cursor.rowcount
    removed["connections"] += 1
    return +removed


def end_all(owner_id: str) -> list[str]:
    """Ends every connection of an owner; their ids."""
    mine = Connection.unscoped.filter(owner_id=owner_id)
    mine.update(status=Connection.Status.REVOKED)
    return list(mine.order_by("pk").values_list("pk", flat=True))


def account_of(owner_id: str) -> int | None:
    """The account that an owner signs in with."""
    return Owner.unscoped.values_list("user_id", flat=True).get(pk=owner_id)


@transaction.atomic
def forget_owner(owner_id: str) -> Counter[str]:
    """Takes away what an owner has beside connections and grants. Their row stays, with nothing in
    it, for the ledger and the receipts to hang on."""
    sources = Source.unscoped.filter(owner_id=owner_id)
    sources.update(current_declaration=None)
    removed = Counter(
        {
            "declarations": SourceDeclaration.unscoped.filter(source__in=sources).delete()[0],
            "sources": sources.delete()[0],
        }
    )
    SetupLink.unscoped.filter(owner_id=owner_id).delete()
    Owner.unscoped.filter(pk=owner_id).update(user=None, display_name="Owner")
    return +removed


def _end(connection_id: str) -> None:
    hold_to_erase(connection_id)
    Connection.unscoped.filter(connection_id=connection_id).update(status=Connection.Status.REVOKED)
