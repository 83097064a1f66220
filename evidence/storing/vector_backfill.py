"""Vectors for what has none yet: apart from ingest, which goes on at its own speed meanwhile.

The vectors of a batch are made while nothing is held, and stored for those of its records that are
still as they were read. Several of these may run at once, and one that is killed has done what it
has done.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import orjson
from django.db import connection, transaction

from evidence.declarations.values import field_text
from evidence.models.connections import Connection, EmbeddedStream
from evidence.search.embedding import Embedder, Stretch, Vector, stretches
from evidence.storing import copy_format, vector_table
from evidence.storing.locks import hold
from evidence.storing.rows import Ref
from evidence.storing.targets import Target, targets_of

FIELDS_AT_ONCE = 500

# `changed`: only the records whose latest changes came after the vectors of the stream were complete.
MISSING = """
SELECT r.record_key, f.field, r.change_seq, r.consent_time, r.data->f.field
FROM evidence_record r CROSS JOIN unnest(%(fields)s::text[]) AS f(field)
WHERE r.connection_id = %(connection_id)s AND r.stream = %(stream)s
    AND (r.record_key, f.field) > (%(key)s, %(field)s)
    AND jsonb_typeof(r.data->f.field) IN ('string', 'array')
    AND (%(since)s::bigint IS NULL OR r.record_key IN (
        SELECT c.record_key FROM evidence_recordchange c
        WHERE c.connection_id = %(connection_id)s AND c.stream = %(stream)s AND c.seq > %(since)s
    ))
    AND NOT EXISTS (
        SELECT FROM evidence_passage p
        WHERE p.connection_id = %(connection_id)s AND p.stream = %(stream)s
            AND p.record_key = r.record_key AND p.field = f.field
    )
ORDER BY r.record_key, f.field LIMIT %(limit)s
"""
AS_THEY_WERE = """
SELECT record_key, change_seq FROM evidence_record
WHERE connection_id = %s AND stream = %s AND record_key = ANY(%s)
"""


class Text(NamedTuple):
    """A field of a record without vectors, as it stands."""

    record_key: str
    field: str
    change_seq: int
    consent_time: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class Stream:
    """What is to be embedded: the semantic fields of a stream, changed after ``since`` (None: all)
    and up to ``head``."""

    target: Target
    fields: list[str]
    since: int | None
    head: int


def embed_missing(embedder: Embedder) -> Iterator[int]:
    """Gives every record of every connection its vectors, batch by batch; how many fields each time.

    The table must have been prepared for the same model.
    """
    known = {(each.connection_id, each.stream): each for each in EmbeddedStream.unscoped.all()}
    rows = Connection.unscoped.select_related("source").order_by("connection_id")
    for row in rows.exclude(status=Connection.Status.REVOKED):
        for target in targets_of(row):
            stream = _stream(row, target, known.get((row.connection_id, target.stream.name)))
            if stream is not None:
                yield from _embed_stream(stream, embedder)


def _stream(row: Connection, target: Target, known: EmbeddedStream | None) -> Stream | None:
    """What of a stream is to be done; None where all is."""
    fields = sorted(name for name, each in target.stream.fields.items() if each.semantic)
    if not fields:
        return None
    if known is None or known.fields != fields or known.seq < row.pruned_seq:
        return Stream(target, fields, None, row.change_seq)
    if known.seq >= row.change_seq:
        return None
    return Stream(target, fields, known.seq, row.change_seq)


def _embed_stream(stream: Stream, embedder: Embedder) -> Iterator[int]:
    after = ("", "")
    while texts := _missing(stream, after):
        vectors = _vectors(texts, embedder)
        with transaction.atomic():
            _store(stream.target, texts, vectors)
        after = texts[-1].record_key, texts[-1].field
        yield len(texts)
    with transaction.atomic():
        if _holds(stream.target):
            EmbeddedStream.unscoped.update_or_create(
                connection_id=stream.target.connection_id,
                stream=stream.target.stream.name,
                defaults={"model": embedder.model_id, "fields": stream.fields, "seq": stream.head},
            )


def _holds(target: Target) -> bool:
    """Holds the connection; whether what its records are derived by is as it was."""
    held = hold([target.connection_id]).get(target.connection_id)
    known = target.declaration_id, target.languages
    return held is not None and (held.declaration_id, tuple(held.languages)) == known


def _missing(stream: Stream, after: tuple[str, str]) -> list[Text]:
    values = {
        "connection_id": stream.target.connection_id,
        "stream": stream.target.stream.name,
        "fields": stream.fields,
        "since": stream.since,
        "key": after[0],
        "field": after[1],
        "limit": FIELDS_AT_ONCE,
    }
    with connection.cursor() as cursor:
        cursor.execute(MISSING, values)
        return [
            Text(key, field, seq, at, field_text(orjson.loads(value)))
            for key, field, seq, at, value in cursor
        ]


Passages = Mapping[tuple[str, str], list[tuple[Stretch, Vector | None]]]


def _vectors(texts: list[Text], embedder: Embedder) -> Passages:
    """The passages of each text; a single empty one where there is nothing to find."""
    cut = [(each, part) for each in texts for part in stretches(each.text)]
    made = embedder.embed([each.text[part.start : part.end] for each, part in cut])
    found: dict[tuple[str, str], list[tuple[Stretch, Vector | None]]] = {}
    for (each, part), vector in zip(cut, made, strict=True):
        if any(vector):
            found.setdefault((each.record_key, each.field), []).append((part, vector))
    for each in texts:
        found.setdefault((each.record_key, each.field), [(Stretch(0, 0), None)])
    return found


def _store(target: Target, texts: list[Text], made: Passages) -> None:
    """Inside a transaction, which holds the connection: nobody changes the records meanwhile."""
    if not _holds(target):
        return
    name = target.stream.name
    with connection.cursor() as cursor:
        keys = list({each.record_key for each in texts})
        cursor.execute(AS_THEY_WERE, [target.connection_id, name, keys])
        now = dict(cursor.fetchall())
    kept = [each for each in texts if now.get(each.record_key) == each.change_seq]
    stale: dict[Ref, set[str]] = {}
    for each in kept:
        stale.setdefault(Ref(target.connection_id, name, each.record_key), set()).add(each.field)
    vector_table.forget(stale)
    vector_table.add(
        _row(target, each, number, part, vector)
        for each in kept
        for number, (part, vector) in enumerate(made[each.record_key, each.field])
    )


def _row(target: Target, text: Text, number: int, part: Stretch, vector: Vector | None) -> bytes:
    return copy_format.binary_row(
        copy_format.binary_text(target.connection_id),
        copy_format.binary_text(target.stream.name),
        copy_format.binary_text(text.record_key),
        copy_format.binary_text(text.field),
        *map(copy_format.binary_integer, (number, part.start, part.end)),
        copy_format.binary_moment(text.consent_time),
        copy_format.binary_halves(vector),
    )
