"""Keyed digests of the records that the owner erased for good, which imports skip."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import connection

from evidence.models.digests import key_digest
from evidence.storing.rows import RecordId

SUPPRESS = """
INSERT INTO evidence_suppression (connection_id, stream, key_digest, erased_at)
SELECT %s, %s, k.digest, %s FROM unnest(%s::bytea[]) AS k(digest) ON CONFLICT DO NOTHING
"""
FORGET_KEYS = """
-- Clear the keys in the notes of live sources. The notes stay: the items are not read again.
UPDATE evidence_synceditem SET record_key = ''
WHERE connection_id = %s AND stream = %s AND record_key = ANY(%s)
"""
SELECT_SUPPRESSED = """
SELECT key_digest FROM evidence_suppression WHERE connection_id = ANY(%s) AND key_digest = ANY(%s)
"""


def suppress_keys(refs: Sequence[RecordId], now: datetime) -> None:
    """Make imports skip records of one stream of one connection."""
    connection_id, stream, _ = refs[0]
    with connection.cursor() as cursor:
        cursor.execute(FORGET_KEYS, [connection_id, stream, [ref.record_key for ref in refs]])
        cursor.execute(SUPPRESS, [connection_id, stream, now, [_digest(ref) for ref in refs]])


def find_suppressed(refs: Iterable[RecordId]) -> frozenset[RecordId]:
    """Return those of the records that the owner erased for good."""
    digests = {_digest(ref): ref for ref in refs}
    if not digests:
        return frozenset()
    connection_ids = list({ref.connection_id for ref in digests.values()})
    with connection.cursor() as cursor:
        cursor.execute(SELECT_SUPPRESSED, [connection_ids, list(digests)])
        return frozenset(digests[bytes(digest)] for (digest,) in cursor)


def _digest(ref: RecordId) -> bytes:
    return key_digest(ref.record_key, connection_id=ref.connection_id, stream=ref.stream)
