"""Keyed digests of the records that the owner erased for good, which imports skip, also under other keys.

Files of several formats have one booking or mail under different keys. A stream declares by which fields
such records are the same: ``x_pdpp_twin_fields`` in its schema. A record without the first of them has
no twins. Erasing a record suppresses a key that is made of these values, once for each erased record,
and notes which kinds of keys have used it up. The kind of a key is its start, up to the underscore.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any

from django.db import connection

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
