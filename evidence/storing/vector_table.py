"""The table of vectors: there only where the database has pgvector, and made for one model.

Its columns hang on the model (``halfvec(256)``), so it is no migration that makes it but
``prepare``; under another model it is dropped and made anew, as everything in it follows from the
records. Whoever changes a record takes away what no longer holds in the same transaction; what is
missing is filled in later (``evidence.storing.vector_backfill``).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from django.db import ProgrammingError, connection, transaction

from evidence.models.connections import EmbeddedStream
from evidence.search.embedding import Embedder
from evidence.storing.copy_format import copy_binary_rows
from evidence.storing.rows import Ref

PARTITIONS = 8
MAKING = 7_310_551_902
"""The advisory lock of whoever makes the table."""
NOT_ALLOWED = "42501"

EXISTS = "SELECT to_regclass('evidence_passage') IS NOT NULL"
STANDS_FOR = "SELECT obj_description(to_regclass('evidence_passage'), 'pg_class')"
AVAILABLE = "SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'vector'"
# `embedding` is null where a field says nothing to the model: it is known, and never found.
TABLE = """
CREATE TABLE evidence_passage (
    connection_id text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    record_key text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    passage integer NOT NULL,
    start_chars integer NOT NULL,
    end_chars integer NOT NULL,
    authored_at timestamptz,
    embedding halfvec({dimension}),
    PRIMARY KEY (connection_id, stream, record_key, field, passage)
) PARTITION BY HASH (connection_id)
"""
PARTITION = """
CREATE TABLE evidence_passage_p{number} PARTITION OF evidence_passage
    FOR VALUES WITH (MODULUS {modulus}, REMAINDER {number})
"""
COPIED = (
    "evidence_passage (connection_id, stream, record_key, field, passage, start_chars, end_chars,"
    " authored_at, embedding)"
)
OF_RECORDS = "connection_id = %s AND stream = %s AND record_key = ANY(%s)"
MOVE = """
UPDATE evidence_passage p SET authored_at = n.at
FROM unnest(%s::text[], %s::timestamptz[]) AS n(record_key, at)
WHERE p.connection_id = %s AND p.stream = %s AND p.record_key = n.record_key
"""

Stale = Mapping[Ref, Collection[str] | None]
"""The fields of a record whose vectors no longer hold; None for all of them."""


def prepare(embedder: Embedder) -> bool:
    """Makes the table for this model unless it is there; whether it is there now.

    False where the database has no pgvector, or this account may not add it.
    """
    stands_for = f"{embedder.model_id} {embedder.dimension}"
    if _asked(STANDS_FOR) == stands_for:
        return True
    if not _asked(AVAILABLE):
        return False
    try:
        _make(embedder.dimension, stands_for)
    except ProgrammingError as error:
        if getattr(error.__cause__, "sqlstate", None) != NOT_ALLOWED:
            raise
        return False
    return True


def _make(dimension: int, stands_for: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [MAKING])
        if _asked(STANDS_FOR) == stands_for:
            return
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        cursor.execute("DROP TABLE IF EXISTS evidence_passage")
        cursor.execute(TABLE.format(dimension=int(dimension)))
        for number in range(PARTITIONS):
            cursor.execute(PARTITION.format(number=number, modulus=PARTITIONS))
        cursor.execute("COMMENT ON TABLE evidence_passage IS %s", [stands_for])
        EmbeddedStream.unscoped.all().delete()


def exists() -> bool:
    return bool(_asked(EXISTS))


def forget(stale: Stale) -> None:
    """Takes away vectors; inside the transaction that changes the records."""
    together: Mapping[tuple[str, str, tuple[str, ...] | None], list[str]] = defaultdict(list)
    for (connection_id, stream, key), fields in stale.items():
        named = None if fields is None else tuple(sorted(fields))
        together[connection_id, stream, named].append(key)
    if not together or not exists():
        return
    with connection.cursor() as cursor:
        for (connection_id, stream, named), keys in together.items():
            statement, values = f"DELETE FROM evidence_passage WHERE {OF_RECORDS}", [keys]  # noqa: S608 - constants
            if named is not None:
                statement, values = f"{statement} AND field = ANY(%s)", [keys, list(named)]
            cursor.execute(statement, [connection_id, stream, *values])


def move(moved: Mapping[Ref, datetime | None]) -> None:
    """Gives the vectors of records their new time; likewise."""
    together: Mapping[tuple[str, str], list[tuple[str, datetime | None]]] = defaultdict(list)
    for (connection_id, stream, key), at in moved.items():
        together[connection_id, stream].append((key, at))
    if not together or not exists():
        return
    with connection.cursor() as cursor:
        for (connection_id, stream), pairs in together.items():
            keys, times = [key for key, _ in pairs], [at for _, at in pairs]
            cursor.execute(MOVE, [keys, times, connection_id, stream])


def forget_streams(connection_id: str, stream: str | None = None) -> None:
    """Takes away every vector of a connection, or of one stream of it, to be made again."""
    narrowed = {} if stream is None else {"stream": stream}
    EmbeddedStream.unscoped.filter(connection_id=connection_id, **narrowed).delete()
    if not exists():
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM evidence_passage"
            " WHERE connection_id = %s AND (%s::text IS NULL OR stream = %s)",
            [connection_id, stream, stream],
        )


def add(rows: Iterable[bytes]) -> None:
    copy_binary_rows(COPIED, rows)


def _asked(question: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchone()[0]
