"""Read a few fields of changed records, for what other apps derive from records.

Call every function in a transaction that locks the connection.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson
from django.db import connection

from evidence.models.owners import current_owner

CHANGED_KEYS = """
-- The records of the next changes of a connection, and the number of the last of these changes.
SELECT stream, record_key, max(seq) OVER () FROM (
    SELECT stream, record_key, seq FROM evidence_recordchange
    WHERE owner_id = %s AND connection_id = %s AND seq > %s ORDER BY seq LIMIT %s
) AS changes
"""
SELECT_FIELDS = """
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
        cursor.execute(SELECT_FIELDS + condition, values)
        return {key: orjson.loads(data or "{}") for key, data in cursor}
