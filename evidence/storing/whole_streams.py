"""Erasing a stream: its records batch by batch, then whatever else still names one of them."""

from collections import Counter
from datetime import datetime

from django.db import connection, transaction

from evidence.models.connections import CollectorState, Connection, StreamState
from evidence.models.embedded import EmbeddedStream
from evidence.models.imports import ImportReceipt
from evidence.storing import rows
from evidence.storing.erasing import RECORDS_AT_ONCE, Tally, take_away

# Keys that are named though no record has them any more.
PAST = """
SELECT DISTINCT x.record_key FROM (
    SELECT connection_id, stream, record_key FROM evidence_recordchange
    UNION ALL SELECT connection_id, stream, record_key FROM evidence_pseudonym
    UNION ALL SELECT connection_id, stream, record_key FROM evidence_blob
) x
WHERE x.connection_id = %(connection_id)s AND x.stream = %(stream)s AND x.record_key > %(after)s
    AND NOT EXISTS (SELECT FROM evidence_record r WHERE r.connection_id = x.connection_id
        AND r.stream = x.stream AND r.record_key = x.record_key)
ORDER BY x.record_key LIMIT %(limit)s
"""


def erase_some(
    connection_id: str, stream: str, *, before: datetime | None, tombstones: bool, now: datetime
) -> Tally | None:
    """Erases the next records of a stream, or of those from before a time; None when none is left.
    Inside a transaction."""
    refs = rows.names(connection_id, stream, limit=RECORDS_AT_ONCE, before=before)
    if not refs:
        return None
    keys = [ref.record_key for ref in refs]
    return take_away(connection_id, stream, keys, tombstones=tombstones, now=now)


def erase_past(
    connection_id: str, stream: str, *, after: str, tombstones: bool, now: datetime
) -> tuple[Tally, str] | None:
    """The same for records that went before, in the order of their keys; with the last of them."""
    asked: dict[str, str | int] = {
        "connection_id": connection_id, "stream": stream, "after": after, "limit": RECORDS_AT_ONCE,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(PAST, asked)
        keys = [key for (key,) in cursor]
    if not keys:
        return None
    return take_away(connection_id, stream, keys, tombstones=tombstones, now=now), keys[-1]


def forget_stream(connection_id: str, stream: str) -> Counter[str]:
    """What is kept about a stream beside its records; how much of each kind."""
    where = {"connection_id": connection_id, "stream": stream}
    EmbeddedStream.unscoped.filter(**where).delete()
    StreamState.unscoped.filter(**where).delete()
    removed = forget_receipts(connection_id)
    removed["collector states"] += forget_collected(connection_id, stream)
    return +removed


def forget_receipts(connection_id: str, *, before: datetime | None = None) -> Counter[str]:
    """Receipts of imports may quote what could not be read, and say nothing of whose record it was
    in; so all of them go, or those of imports from before a time."""
    found = ImportReceipt.unscoped.filter(connection_id=connection_id)
    if before is not None:
        found = found.filter(run__updated_at__lt=before)
    return Counter({"import receipts": found.delete()[0]})


def forget_collected(connection_id: str, stream: str, record_key: str | None = None) -> int:
    """What collectors remember of a stream, or only where it mentions the record; how many memories
    changed. They stand by source, so that other connections of it may be collected once more."""
    changed = 0
    with transaction.atomic():
        source_id = Connection.unscoped.values_list("source_id", flat=True).get(pk=connection_id)
        found = CollectorState.unscoped.select_for_update().filter(source_id=source_id)
        for row in found.order_by("pk"):
            said = row.state.get(stream)
            mentioned = record_key is None or record_key in _told(said)
            if stream in row.state and mentioned:
                row.state = {name: each for name, each in row.state.items() if name != stream}
                row.save(update_fields=["state"])
                changed += 1
    return changed


def _told(state: object) -> str:
    """Every word in a memory, without the escapes of JSON."""
    if isinstance(state, dict):
        return "\n".join(_told(each) for pair in state.items() for each in pair)
    if isinstance(state, list):
        return "\n".join(map(_told, state))
    return str(state)
