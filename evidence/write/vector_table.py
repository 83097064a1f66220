"""Create and write the pgvector table of the configured model.

The table exists only if the database has pgvector. Its columns depend on the model
(``halfvec(256)``), so ``prepare_table`` creates it instead of a migration, and recreates it for
another model. Writers delete outdated vectors together with the change of the record;
``evidence.write.vector_backfill`` computes missing ones later.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from django.db import ProgrammingError, connection, transaction

from evidence.models.connections import EmbeddedStream
from evidence.models.owners import across_owners, current_owner
from evidence.search.embedding import Embedder
from evidence.write.copy_format import copy_binary_rows
from evidence.write.rows import RecordId

PARTITIONS = 8
CREATE_LOCK = 7_310_551_902
"""Advisory lock held while the table is created."""
INSUFFICIENT_PRIVILEGE = "42501"

EXISTS = "SELECT to_regclass('evidence_passage') IS NOT NULL"
MODEL_COMMENT = "SELECT obj_description(to_regclass('evidence_passage'), 'pg_class')"
AVAILABLE = "SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'vector'"
# `embedding` is null for a text without a vector, so that the backfill does not try it again.
TABLE = """
CREATE TABLE evidence_passage (
    owner_id text COLLATE "C" NOT NULL,
    connection_id text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    record_key text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    passage integer NOT NULL,
    start_chars integer NOT NULL,
    end_chars integer NOT NULL,
    authored_at timestamptz,
    embedding halfvec({dimension}),
    PRIMARY KEY (owner_id, connection_id, stream, record_key, field, passage)
) PARTITION BY HASH (owner_id, connection_id)
"""
PARTITION = """
CREATE TABLE evidence_passage_p{number} PARTITION OF evidence_passage
    FOR VALUES WITH (MODULUS {modulus}, REMAINDER {number})
"""
COLUMNS = (
    "evidence_passage (owner_id, connection_id, stream, record_key, field, passage, start_chars, end_chars,"
    " authored_at, embedding)"
)
BY_KEYS = "owner_id = %s AND connection_id = %s AND stream = %s AND record_key = ANY(%s)"
UPDATE_TIMES = """
UPDATE evidence_passage p SET authored_at = n.at
FROM unnest(%s::text[], %s::timestamptz[]) AS n(record_key, at)
WHERE p.owner_id = %s AND p.connection_id = %s AND p.stream = %s AND p.record_key = n.record_key
"""

Stale = Mapping[RecordId, Collection[str] | None]
"""Fields with outdated vectors, by record; None means all fields."""


def prepare_table(embedder: Embedder) -> bool:
    """Create the table for this model if necessary, and return whether it exists.

    It cannot be created if the database has no pgvector or the account may not add it.
    """
    model_comment = f"{embedder.model_id} {embedder.dimension}"
    if _query_value(MODEL_COMMENT) == model_comment:
        return True
    if not _query_value(AVAILABLE):
        return False
    try:
        _create(embedder.dimension, model_comment)
    except ProgrammingError as error:
        if getattr(error.__cause__, "sqlstate", None) != INSUFFICIENT_PRIVILEGE:
            raise
        return False
    return True


def _create(dimension: int, model_comment: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CREATE_LOCK])
        if _query_value(MODEL_COMMENT) == model_comment:
            return
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        cursor.execute("DROP TABLE IF EXISTS evidence_passage")
        cursor.execute(TABLE.format(dimension=int(dimension)))
        for number in range(PARTITIONS):
            cursor.execute(PARTITION.format(number=number, modulus=PARTITIONS))
        cursor.execute("COMMENT ON TABLE evidence_passage IS %s", [model_comment])
        with across_owners():
            EmbeddedStream.unscoped.all().delete()


def exists() -> bool:
    return bool(_query_value(EXISTS))


def delete_vectors(stale: Stale) -> None:
    """Delete outdated vectors, inside the transaction that changes the records."""
    groups: Mapping[tuple[str, str, tuple[str, ...] | None], list[str]] = defaultdict(list)
    for (connection_id, stream, key), fields in stale.items():
        names = None if fields is None else tuple(sorted(fields))
        groups[connection_id, stream, names].append(key)
    if not groups or not exists():
        return
    with connection.cursor() as cursor:
        for (connection_id, stream, names), keys in groups.items():
            statement, parameters = f"DELETE FROM evidence_passage WHERE {BY_KEYS}", [keys]  # noqa: S608 - constants
            if names is not None:
                statement, parameters = f"{statement} AND field = ANY(%s)", [keys, list(names)]
            cursor.execute(statement, [current_owner(), connection_id, stream, *parameters])


def update_times(new_times: Mapping[RecordId, datetime | None]) -> None:
    """Update the times of vectors, inside the transaction that changes the records."""
    groups: Mapping[tuple[str, str], list[tuple[str, datetime | None]]] = defaultdict(list)
    for (connection_id, stream, key), at in new_times.items():
        groups[connection_id, stream].append((key, at))
    if not groups or not exists():
        return
    with connection.cursor() as cursor:
        for (connection_id, stream), pairs in groups.items():
            keys, times = [key for key, _ in pairs], [at for _, at in pairs]
            cursor.execute(UPDATE_TIMES, [keys, times, current_owner(), connection_id, stream])


def delete_stream_vectors(connection_id: str, stream: str | None = None) -> None:
    """Delete every vector of a connection or of one of its streams, to be computed again."""
    stream_filter = {} if stream is None else {"stream": stream}
    EmbeddedStream.unscoped.filter(connection_id=connection_id, **stream_filter).delete()
    if not exists():
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM evidence_passage"
            " WHERE owner_id = %s AND connection_id = %s AND (%s::text IS NULL OR stream = %s)",
            [current_owner(), connection_id, stream, stream],
        )


def add_vectors(rows: Iterable[bytes]) -> None:
    copy_binary_rows(COLUMNS, rows)


def _query_value(statement: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]
