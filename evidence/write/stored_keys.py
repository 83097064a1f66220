"""Answer importers and sources about the records that a connection has, and about those erased for good.

Imports skip the records that the owner erased for good, by keyed digests of their keys, also under other
keys. Files of several formats have one booking or mail under different keys. A stream declares by which
fields such records are the same: ``x_pdpp_twin_fields`` in its schema. A record without the first of them
has no twins. Erasing a record suppresses a key that is made of these values, once for each erased record,
and notes which kinds of keys have used it up. The kind of a key is its start, up to the underscore.

What other apps derive from records is read from the fields of changed records, in a transaction
that locks the connection.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any

import orjson
from django.db import connection

from evidence.declarations.declaration import StreamDeclaration
from evidence.declarations.values import parse_instant
from evidence.models.digests import key_digest, value_digest
from evidence.models.owners import current_owner
from evidence.write import app_data
from evidence.write.rows import RecordId

SUPPRESS = """
INSERT INTO evidence_suppression (owner_id, connection_id, stream, key_digest, erased_at)
SELECT %s, %s, %s, k.digest, %s FROM unnest(%s::bytea[]) AS k(digest) ON CONFLICT DO NOTHING
"""
SELECT_SUPPRESSED = """
SELECT key_digest FROM evidence_suppression
WHERE owner_id = %s AND connection_id = ANY(%s) AND key_digest = ANY(%s)
"""


def suppress_keys(refs: Sequence[RecordId], now: datetime) -> None:
    """Make imports skip records of one stream of one connection."""
    connection_id, stream, _ = refs[0]
    for data in app_data.registered():
        data.forget_keys(connection_id, stream, [ref.record_key for ref in refs])
    with connection.cursor() as cursor:
        digests = [_digest(ref) for ref in refs]
        cursor.execute(SUPPRESS, [current_owner(), connection_id, stream, now, digests])


def find_suppressed(refs: Iterable[RecordId]) -> frozenset[RecordId]:
    """Return those of the records that the owner erased for good."""
    digests = {_digest(ref): ref for ref in refs}
    if not digests:
        return frozenset()
    connection_ids = list({ref.connection_id for ref in digests.values()})
    with connection.cursor() as cursor:
        cursor.execute(SELECT_SUPPRESSED, [current_owner(), connection_ids, list(digests)])
        return frozenset(digests[bytes(digest)] for (digest,) in cursor)


def _digest(ref: RecordId) -> bytes:
    return key_digest(ref.record_key, connection_id=ref.connection_id, stream=ref.stream)


def suppress_twins(
    records: Mapping[RecordId, Mapping[str, Any]], fields: Sequence[str], now: datetime
) -> None:
    """Suppress the twins of erased records of one stream, inside the transaction that erases them."""
    records = {ref: data for ref, data in records.items() if has_identity(data, fields)}
    taken = set(find_suppressed(_twin(ref, data, fields, 1) for ref, data in records.items()))
    suppressed = list[RecordId]()
    for ref, data in records.items():
        for number in count(1):
            twin = _twin(ref, data, fields, number)
            if twin not in taken and (number == 1 or not find_suppressed([twin])):
                break
        taken.add(twin)
        suppressed += [twin, _used_by(twin, ref)]
    if suppressed:
        suppress_keys(suppressed, now)


def find_erased_twins(
    records: Iterable[tuple[RecordId, Mapping[str, Any], Sequence[str]]],
) -> frozenset[RecordId]:
    """Return those of the records that may be twins of erased ones. One query."""
    twins = {
        ref: _twin(ref, data, fields, 1)
        for ref, data, fields in records
        if has_identity(data, fields)
    }
    suppressed = find_suppressed(twins.values())
    return frozenset(ref for ref, twin in twins.items() if twin in suppressed)


def is_erased_twin(
    ref: RecordId, data: Mapping[str, Any], fields: Sequence[str], now: datetime
) -> bool:
    """Return whether a new record is the twin of an erased one, and suppress its own key then.

    Each erased record has one twin of each kind.
    """
    for number in count(1):
        twin = _twin(ref, data, fields, number)
        suppressed = find_suppressed([twin, _used_by(twin, ref)])
        if twin not in suppressed:
            return False
        if len(suppressed) == 1:
            suppress_keys([ref, _used_by(twin, ref)], now)
            return True
    return False


def has_identity(data: Mapping[str, Any], fields: Sequence[str]) -> bool:
    """Return whether a record has the field without which it has no twins."""
    return bool(fields) and twin_values(data, fields)[0] not in (None, "")


def twin_values(data: Mapping[str, Any], fields: Sequence[str]) -> list[Any]:
    """Return the values of the twin fields; of ``a|b``, b is the field of records without a."""
    pairs = (name.partition("|") for name in fields)
    return [data.get(name) or data.get(other or name) for name, _, other in pairs]


def _twin(ref: RecordId, data: Mapping[str, Any], fields: Sequence[str], number: int) -> RecordId:
    values = value_digest(twin_values(data, fields))
    return ref._replace(record_key=f"={values}#{number}")


def _used_by(twin: RecordId, ref: RecordId) -> RecordId:
    kind = ref.record_key.partition("_")[0]
    return twin._replace(record_key=f"{twin.record_key}!{kind}")


SELECT_ANY = """
-- Return whether a stream of a connection has one of these keys.
SELECT EXISTS (
    SELECT FROM evidence_record
    WHERE owner_id = %s AND connection_id = %s AND stream = %s AND record_key = ANY(%s)
)
"""
SELECT_EXISTING = """
-- Return which of these keys a stream of a connection has.
SELECT record_key FROM evidence_record
WHERE owner_id = %s AND connection_id = %s AND stream = %s AND record_key = ANY(%s)
"""
SELECT_FIELDS = """
-- Return some fields, in their order, of the records of a stream.
SELECT record_key,
    (SELECT jsonb_agg(data -> f.name ORDER BY f.position)
     FROM unnest(%s::text[]) WITH ORDINALITY AS f(name, position))::text
FROM evidence_record
WHERE owner_id = %s AND connection_id = %s AND stream = %s
"""
SELECT_DIGESTS = """
-- Return 8 bytes of a digest of some fields for each record whose key begins with a prefix and that
-- has the first of these fields; sorted and joined.
SELECT string_agg(digest, '' ORDER BY digest) FROM (
    SELECT substring(sha256(convert_to((
        SELECT string_agg(coalesce(nullif(data ->> f.name, ''), data ->> f.other, ''), E'\\n'
            ORDER BY f.position)
        FROM unnest(%(fields)s::text[], %(others)s::text[]) WITH ORDINALITY
            AS f(name, other, position)
    ), 'UTF8')) FROM 1 FOR 8) AS digest
    FROM evidence_record
    WHERE owner_id = %(owner_id)s AND connection_id = %(connection_id)s AND stream = %(stream)s
        AND starts_with(record_key, %(prefix)s) AND (
            data ->> (%(fields)s::text[])[1] <> '' OR data ->> (%(others)s::text[])[1] <> ''
        )
) AS digests
"""
SELECT_TWINS = """
-- Return the number of each of these values of fields, and the key of a record that has them, whose key
-- begins with a prefix and whose time is nearly the same.
SELECT v.number, min(r.record_key)
FROM unnest(%(values)s::text[], %(times)s::timestamptz[]) WITH ORDINALITY AS v(fields, at, number)
JOIN evidence_record AS r
    ON r.owner_id = %(owner_id)s AND r.connection_id = %(connection_id)s AND r.stream = %(stream)s
    AND r.consent_time BETWEEN v.at - interval '10 minutes' AND v.at + interval '10 minutes'
WHERE starts_with(r.record_key, %(prefix)s) AND v.fields::jsonb = (
    SELECT jsonb_agg(
        CASE WHEN r.data ->> f.name <> '' THEN r.data -> f.name ELSE r.data -> f.other END
        ORDER BY f.position
    )
    FROM unnest(%(fields)s::text[], %(others)s::text[]) WITH ORDINALITY AS f(name, other, position)
)
GROUP BY v.number
"""
SELECT_FIRST_OF_SERIES = """
-- Return the first keys of each series: its id, a dot, and the start of an occurrence.
SELECT record_key
FROM (
    SELECT record_key, row_number() OVER (
        PARTITION BY split_part(record_key, '.', 1) ORDER BY record_key
    ) AS position
    FROM evidence_record
    WHERE owner_id = %s AND connection_id = %s AND stream = %s AND strpos(record_key, '.') > 0
) AS numbered
WHERE position <= %s
"""
FIRST_OF_SERIES = 20


def has_any(connection_id: str, stream: str, keys: Sequence[str]) -> bool:
    """Return whether a stream of a connection has one of these keys."""
    with connection.cursor() as cursor:
        cursor.execute(SELECT_ANY, [current_owner(), connection_id, stream, list(keys)])
        return bool(cursor.fetchone()[0])


def existing(connection_id: str, stream: str, keys: Collection[str]) -> set[str]:
    """Return which of these keys a stream of a connection has."""
    with connection.cursor() as cursor:
        cursor.execute(SELECT_EXISTING, [current_owner(), connection_id, stream, list(keys)])
        return {key for (key,) in cursor}


def fields_by_key(
    connection_id: str, stream: str, *, fields: Sequence[str]
) -> dict[str, list[Any]]:
    """Return fields of the records of a stream."""
    with connection.cursor() as cursor:
        cursor.execute(SELECT_FIELDS, [list(fields), current_owner(), connection_id, stream])
        return {key: orjson.loads(values or "[]") for key, values in cursor}


def twin_digests(connection_id: str, stream: str, *, prefix: str, fields: Sequence[str]) -> bytes:
    """Return sorted digests of fields of the records whose keys begin with the prefix."""
    with connection.cursor() as cursor:
        cursor.execute(
            SELECT_DIGESTS,
            {
                "owner_id": current_owner(),
                "connection_id": connection_id,
                "stream": stream,
                "prefix": prefix,
                **_field_parameters(fields),
            },
        )
        return bytes(cursor.fetchone()[0] or b"")


def _field_parameters(fields: Sequence[str]) -> dict[str, list[str]]:
    """Return the twin fields, and the field of records without each of them."""
    pairs = [name.partition("|") for name in fields]
    return {
        "fields": [name for name, _, _ in pairs],
        "others": [other or name for name, _, other in pairs],
    }


def find_twins(
    stream: StreamDeclaration,
    records: Mapping[str, Mapping[str, Any]],
    *,
    connection_id: str,
    prefix: str,
) -> dict[str, str]:
    """Return the key of the stored twin of each record that has one whose key begins with the prefix.

    Twins are equal in the twin fields of the stream, and their times differ by minutes at most.
    """
    names, time_field = stream.twin_fields, stream.consent_time_field
    found = {
        key: (orjson.dumps(twin_values(data, names)).decode(), at)
        for key, data in records.items()
        if has_identity(data, names) and (at := parse_instant(data.get(time_field or "")))
    }
    if not found:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            SELECT_TWINS,
            {
                "owner_id": current_owner(),
                "connection_id": connection_id,
                "stream": stream.name,
                "prefix": prefix,
                **_field_parameters(names),
                "values": [values for values, _ in found.values()],
                "times": [at for _, at in found.values()],
            },
        )
        keys = list(found)
        return {keys[number - 1]: key for number, key in cursor}


def first_of_series(connection_id: str, stream: str) -> list[str]:
    """Return the first FIRST_OF_SERIES keys of each series of a stream."""
    with connection.cursor() as cursor:
        values = (current_owner(), connection_id, stream, FIRST_OF_SERIES)
        cursor.execute(SELECT_FIRST_OF_SERIES, values)
        return [key for (key,) in cursor]


CHANGED_KEYS = """
-- The records of the next changes of a connection, and the number of the last of these changes.
SELECT stream, record_key, max(seq) OVER () FROM (
    SELECT stream, record_key, seq FROM evidence_recordchange
    WHERE owner_id = %s AND connection_id = %s AND seq > %s ORDER BY seq LIMIT %s
) AS changes
"""
SELECT_SOME_FIELDS = """
SELECT r.record_key, (
    SELECT jsonb_object_agg(f.name, r.data -> f.name)
    FROM unnest(%(fields)s::text[]) AS f(name) WHERE r.data ? f.name
)::text
FROM evidence_record AS r
WHERE r.owner_id = %(owner_id)s AND r.connection_id = %(connection_id)s AND r.stream = %(stream)s
"""
BY_KEYS = "AND r.record_key = ANY(%(keys)s)"
AFTER_KEY = "AND r.record_key > %(after)s ORDER BY r.record_key LIMIT %(limit)s"


Fields = Mapping[str, Any]


def changed_keys(
    connection_id: str, *, since: int, limit: int
) -> tuple[Mapping[str, set[str]], int | None]:
    """Return stream -> keys of the next changed records, and the last change number, if any."""
    keys: dict[str, set[str]] = defaultdict(set)
    last = None
    with connection.cursor() as cursor:
        cursor.execute(CHANGED_KEYS, [current_owner(), connection_id, since, limit])
        for stream, key, last_seq in cursor:
            keys[stream].add(key)
            last = last_seq
    return keys, last


def fields_of(
    connection_id: str, stream: str, *, fields: Sequence[str], keys: Collection[str]
) -> dict[str, Fields]:
    """Return some fields of those of the records that exist, by key."""
    return _fetch_fields(BY_KEYS, connection_id, stream, fields, keys=list(keys))


def next_fields(
    connection_id: str, stream: str, *, fields: Sequence[str], after: str, limit: int
) -> dict[str, Fields]:
    """Return some fields of the next records of a stream, by key and in its order."""
    return _fetch_fields(AFTER_KEY, connection_id, stream, fields, after=after, limit=limit)


def _fetch_fields(
    condition: str,
    connection_id: str,
    stream: str,
    fields: Sequence[str],
    **more: str | int | list[str],
) -> dict[str, Fields]:
    values: dict[str, str | int | list[str]] = {
        "owner_id": current_owner(), "connection_id": connection_id, "stream": stream,
        "fields": list(fields), **more,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(SELECT_SOME_FIELDS + condition, values)
        return {key: orjson.loads(data or "{}") for key, data in cursor}
