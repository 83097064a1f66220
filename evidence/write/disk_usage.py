"""Estimate the bytes of an owner's records, files and search index, and refuse more than the limit.

Only rows of that owner are read, so nothing of another owner moves a figure. Records are estimated from
the first rows of each stream: the time grows with the number of streams, not of records.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from evidence.access.sql import SQL, fetch_all
from evidence.errors import StorageFull
from evidence.models.owners import Owner, current_owner
from evidence.write import vectors

SAMPLED_ROWS = 200
"""First rows of each stream whose sizes are read."""
MEASURE_SECONDS = 30.0
"""Time for which the size of an owner with a limit is taken as known."""

# Large values count as stored, without reading them. Constants stand for a row's header and indexes.
SELECT_SIZES: Final = """
-- Estimate the bytes of one table by connection of an owner. One query.
-- Parameters: rows to read of each stream, owner id.
SELECT s.connection_id, coalesce(sum(s.record_count * x.bytes), 0)::bigint
FROM evidence_streamstate s
CROSS JOIN LATERAL (
    SELECT sum(y.bytes)::float / count(DISTINCT y.record_key) AS bytes
    FROM (
        SELECT t.record_key, {bytes} AS bytes FROM {table} t
        WHERE t.owner_id = s.owner_id AND t.connection_id = s.connection_id AND t.stream = s.stream
        ORDER BY t.record_key LIMIT %s
    ) y
) x
WHERE s.owner_id = %s AND s.record_count > 0
GROUP BY s.connection_id
"""
ROW_BYTES: Final[Mapping[str, str]] = {
    "evidence_record": "400 + pg_column_size(t.data)",
    "evidence_recordchange": "250 + coalesce(pg_column_size(t.changed), 0)",
    "evidence_searchtext": "200 + 2 * pg_column_size(t.terms) + coalesce(pg_column_size(t.word_order), 0)",
    "evidence_passage": "250 + 2 * coalesce(pg_column_size(t.embedding), 0)",
}
SELECT_FILES: Final = """
-- Bytes of the files of an owner by connection. One query. Parameters: owner id.
SELECT connection_id, sum(300 + size_bytes)::bigint FROM evidence_blob WHERE owner_id = %s
GROUP BY connection_id
"""


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Estimated bytes by connection."""

    records: Counter[str]
    files: Counter[str]
    index: Counter[str]

    @property
    def total(self) -> int:
        return (self.records + self.files + self.index).total()


def disk_usage() -> DiskUsage:
    """Return what the current owner's connections take. At most six queries."""
    owner_id = current_owner()
    found = {
        table: Counter(
            dict(
                fetch_all(
                    SQL(SELECT_SIZES.format(table=table, bytes=row_bytes), (SAMPLED_ROWS, owner_id))
                )
            )
        )
        for table, row_bytes in ROW_BYTES.items()
        if table != "evidence_passage" or vectors.exists()
    }
    return DiskUsage(
        records=found["evidence_record"] + found["evidence_recordchange"],
        files=Counter(dict(fetch_all(SQL(SELECT_FILES, (owner_id,))))),
        index=found["evidence_searchtext"] + found.get("evidence_passage", Counter()),
    )


_measured: dict[str, tuple[float, int]] = {}


def check_disk_limit() -> None:
    """Raise ``StorageFull`` if the current owner's records and files have reached their limit.

    One query without a limit. With one, sizes are measured again after ``MEASURE_SECONDS``.
    """
    owner_id = current_owner()
    owners = Owner.unscoped.filter(pk=owner_id)
    limit = owners.values_list("disk_limit_bytes", flat=True).first()
    if limit is None:
        return
    measured_at, size = _measured.get(owner_id, (0.0, 0))
    if not 0 <= time.monotonic() - measured_at < MEASURE_SECONDS:
        size = disk_usage().total
        _measured[owner_id] = (time.monotonic(), size)
    if size >= limit:
        raise StorageFull
