"""Create and write the pgvector table of the configured model, and compute missing embeddings in batches.

Embeddings are computed independently of imports.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db import ProgrammingError, connection, transaction

from evidence.declarations.declaration import field_text
from evidence.models.connections import Connection, EmbeddedStream
from evidence.models.owners import across_owners, current_owner
from evidence.search.embedding import Embedder, PassageRange, Vector, split_passages
from evidence.write.locks import lock_connections
from evidence.write.rows import RecordId, Row, copy_rows
from evidence.write.targets import Target, connection_targets

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


def _query_value(statement: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


BATCH_SIZE = 500

# `since`: only records changed after the vectors of the stream were complete.
MISSING = """
SELECT r.record_key, f.field, r.change_seq, r.consent_time, r.data->f.field
FROM evidence_record r CROSS JOIN unnest(%(fields)s::text[]) AS f(field)
WHERE r.owner_id = %(owner_id)s AND r.connection_id = %(connection_id)s AND r.stream = %(stream)s
    AND (r.record_key, f.field) > (%(key)s, %(field)s)
    AND jsonb_typeof(r.data->f.field) IN ('string', 'array')
    AND (%(since)s::bigint IS NULL OR r.record_key IN (
        SELECT c.record_key FROM evidence_recordchange c
        WHERE c.owner_id = %(owner_id)s AND c.connection_id = %(connection_id)s
            AND c.stream = %(stream)s AND c.seq > %(since)s
    ))
    AND NOT EXISTS (
        SELECT FROM evidence_passage p
        WHERE p.owner_id = %(owner_id)s AND p.connection_id = %(connection_id)s
            AND p.stream = %(stream)s
            AND p.record_key = r.record_key AND p.field = f.field
    )
ORDER BY r.record_key, f.field LIMIT %(limit)s
"""
CURRENT_CHANGE_NUMBERS = """
SELECT record_key, change_seq FROM evidence_record
WHERE owner_id = %s AND connection_id = %s AND stream = %s AND record_key = ANY(%s)
"""


class FieldText(NamedTuple):
    """The current text of a record's field that has no vectors."""

    record_key: str
    field: str
    change_seq: int
    consent_time: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class PendingStream:
    """Semantic fields of a stream to embed, changed after ``since`` (None: all), up to ``head``."""

    target: Target
    fields: list[str]
    since: int | None
    head: int


def embed_missing(embedder: Embedder) -> Iterator[int]:
    """Embed every missing text of every connection; yield the number of fields per batch.

    Requires ``prepare_table`` for the same model.
    """
    previous = {(row.connection_id, row.stream): row for row in EmbeddedStream.unscoped.all()}
    rows = Connection.unscoped.select_related("source").order_by("connection_id")
    for row in rows.exclude(status=Connection.Status.REVOKED):
        for target in connection_targets(row):
            stream = _pending_stream(
                row, target, previous.get((row.connection_id, target.stream.name))
            )
            if stream is not None:
                yield from _embed_stream(stream, embedder)


def _pending_stream(
    row: Connection, target: Target, previous: EmbeddedStream | None
) -> PendingStream | None:
    fields = sorted(name for name, field in target.stream.fields.items() if field.semantic)
    if not fields:
        return None
    if previous is None or previous.fields != fields or previous.seq < row.pruned_seq:
        return PendingStream(target, fields, None, row.change_seq)
    if previous.seq >= row.change_seq:
        return None
    return PendingStream(target, fields, previous.seq, row.change_seq)


def _embed_stream(stream: PendingStream, embedder: Embedder) -> Iterator[int]:
    after = ("", "")
    while texts := _missing(stream, after):
        vectors = _vectors(texts, embedder)
        with transaction.atomic():
            _store(stream.target, texts, vectors)
        after = texts[-1].record_key, texts[-1].field
        yield len(texts)
    with transaction.atomic():
        if _lock_unchanged(stream.target):
            EmbeddedStream.unscoped.update_or_create(
                connection_id=stream.target.connection_id,
                stream=stream.target.stream.name,
                defaults={"model": embedder.model_id, "fields": stream.fields, "seq": stream.head},
            )


def _lock_unchanged(target: Target) -> bool:
    """Lock the connection; return whether its declaration and languages are still the target's."""
    locked = lock_connections([target.connection_id]).get(target.connection_id)
    return locked is not None and (
        locked.declaration_id,
        tuple(locked.languages),
    ) == (target.declaration_id, target.languages)


def _missing(stream: PendingStream, after: tuple[str, str]) -> list[FieldText]:
    values = {
        "owner_id": stream.target.owner_id,
        "connection_id": stream.target.connection_id,
        "stream": stream.target.stream.name,
        "fields": stream.fields,
        "since": stream.since,
        "key": after[0],
        "field": after[1],
        "limit": BATCH_SIZE,
    }
    with connection.cursor() as cursor:
        cursor.execute(MISSING, values)
        return [
            FieldText(key, field, seq, at, field_text(orjson.loads(value)))
            for key, field, seq, at, value in cursor
        ]


Passages = Mapping[tuple[str, str], list[tuple[PassageRange, Vector | None]]]


def _vectors(texts: list[FieldText], embedder: Embedder) -> Passages:
    """Return the passages of each text with vectors; one empty passage if nothing is searchable."""
    parts = [(text, part) for text in texts for part in split_passages(text.text)]
    vectors = embedder.embed([text.text[part.start : part.end] for text, part in parts])
    passages: dict[tuple[str, str], list[tuple[PassageRange, Vector | None]]] = {}
    for (text, part), vector in zip(parts, vectors, strict=True):
        if any(vector):
            passages.setdefault((text.record_key, text.field), []).append((part, vector))
    for text in texts:
        passages.setdefault((text.record_key, text.field), [(PassageRange(0, 0), None)])
    return passages


def _store(target: Target, texts: list[FieldText], vectors: Passages) -> None:
    """Store vectors of unchanged records, inside a transaction that locks the connection."""
    if not _lock_unchanged(target):
        return
    name = target.stream.name
    with connection.cursor() as cursor:
        keys = list({text.record_key for text in texts})
        values: tuple[Any, ...] = (target.owner_id, target.connection_id, name, keys)
        cursor.execute(CURRENT_CHANGE_NUMBERS, values)
        change_seqs = dict(cursor.fetchall())
    unchanged = [text for text in texts if change_seqs.get(text.record_key) == text.change_seq]
    stale: dict[RecordId, set[str]] = {}
    for text in unchanged:
        stale.setdefault(RecordId(target.connection_id, name, text.record_key), set()).add(
            text.field
        )
    delete_vectors(stale)
    copy_rows(
        COLUMNS,
        (
            _row(target, text, number, part, vector)
            for text in unchanged
            for number, (part, vector) in enumerate(vectors[text.record_key, text.field])
        ),
    )


def _row(
    target: Target, text: FieldText, number: int, part: PassageRange, vector: Vector | None
) -> Row:
    return (
        target.owner_id,
        target.connection_id,
        target.stream.name,
        text.record_key,
        text.field,
        number,
        part.start,
        part.end,
        text.consent_time,
        None if vector is None else str([float(each) for each in vector]),
    )
