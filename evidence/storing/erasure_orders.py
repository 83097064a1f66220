"""Orders to erase and their receipts: what was removed, how much, when and by whom. No contents."""

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Max

from evidence.models.connections import CollectorState, Connection, EmbeddedStream, StreamState
from evidence.models.erasures import Erasure
from evidence.models.imports import ImportReceipt
from evidence.storing import rows, vector_table
from evidence.storing.connection_erasure import TABLES
from evidence.storing.record_erasure import RECORDS_AT_ONCE, Tally, take_away

Of = Erasure.Of


def order(
    of: Of,
    *,
    owner_id: str,
    by: str,
    now: datetime,
    connection_id: str = "",
    stream: str = "",
    record_digest: bytes | None = None,
    before: datetime | None = None,
    tombstones: bool = True,
) -> Erasure:
    """An erasure that goes on until it is finished; the unfinished one of the same, if there is."""
    with transaction.atomic():
        same = Erasure.unscoped.select_for_update().filter(
            owner_id=owner_id, of=of, connection_id=connection_id, stream=stream,
            finished_at=None, record_digest=record_digest, tombstones=tombstones,
            before__isnull=before is None,
        )  # fmt: skip
        return same.first() or Erasure.unscoped.create(
            erasure_id="ers_" + secrets.token_hex(12),
            owner_id=owner_id,
            of=of,
            by=by,
            connection_id=connection_id,
            stream=stream,
            record_digest=record_digest,
            before=before,
            tombstones=tombstones,
            wanted_at=now,
            updated_at=now,
        )


@contextmanager
def a_step(erasure_id: str, *, now: datetime) -> Iterator[Erasure | None]:
    """A transaction that removes some rows and counts them; None where all is done. Of two runs of
    one erasure one waits for the other."""
    with transaction.atomic():
        row = Erasure.unscoped.select_for_update().get(erasure_id=erasure_id)
        if row.finished_at is not None:
            yield None
            return
        yield row
        row.updated_at = now
        row.save(update_fields=["removed", "kept", "updated_at", "finished_at"])


def count(row: Erasure, tally: Tally) -> None:
    """Adds to what the receipt says; inside a step."""
    row.removed = +(Counter(row.removed) + tally.removed)
    row.kept = +(Counter(row.kept) + tally.kept)


def unfinished() -> list[Erasure]:
    return list(Erasure.unscoped.filter(finished_at=None).order_by("wanted_at", "erasure_id"))


def at_rest_since() -> datetime | None:
    """When something was last erased of what is to be; None where nothing is."""
    unfinished_ones = Erasure.unscoped.filter(finished_at=None)
    found: datetime | None = unfinished_ones.aggregate(at=Max("updated_at"))["at"]
    return found


def receipt(erasure_id: str, *, owner_id: str) -> Erasure | None:
    return Erasure.unscoped.filter(erasure_id=erasure_id, owner_id=owner_id).first()


def receipts(owner_id: str, *, most: int) -> list[Erasure]:
    """The latest first."""
    rows = Erasure.unscoped.filter(owner_id=owner_id).order_by("-wanted_at", "erasure_id")
    return list(rows[:most])


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


BY_STREAM = (
    "evidence_record", "evidence_blob", "evidence_passage", "evidence_searchtext",
    "evidence_recordchange", "evidence_pseudonym",
)  # fmt: skip


def holdings(
    connection_id: str, *, stream: str | None = None, record_key: str | None = None
) -> Counter[str]:
    """What a connection, a stream of it or one record consists of."""
    condition, values = "connection_id = %s", [connection_id]
    if stream is not None:
        condition, values = condition + " AND stream = %s", [*values, stream]
    if record_key is not None:
        condition, values = condition + " AND record_key = %s", [*values, record_key]
    found: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for table, kind in TABLES.items():
            if stream is not None and table not in BY_STREAM:
                continue
            if table == "evidence_passage" and not vector_table.exists():
                continue
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {condition}", values)  # noqa: S608 - constants
            found[kind] = cursor.fetchone()[0]
    return +found


def everything(owner_id: str) -> Counter[str]:
    """The same for all connections of an owner, and how many they are."""
    ids = list(Connection.unscoped.filter(owner_id=owner_id).values_list("pk", flat=True))
    found = sum((holdings(connection_id) for connection_id in ids), Counter[str]())
    found["connections"] = len(ids)
    return +found
