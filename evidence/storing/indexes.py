"""What a large load leaves to be done, so that the next search does not pay for it."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection, transaction

PENDING_RECORDS = 10_000
"""How many records may wait to be merged into the search index while a load goes on."""
MANY_RECORDS = 5_000
"""From here on the planner's picture of the tables is worth renewing."""

MEMORY = "SET LOCAL maintenance_work_mem = '128MB'"
MERGE = """
SELECT gin_clean_pending_list(i.inhrelid::regclass)
FROM pg_inherits i WHERE i.inhparent = 'search_text_terms'::regclass
"""
# Only what statements compare, and of the terms only where something was written: a sample of
# them is large, and every value of it is read.
ANALYZE = (
    "ANALYZE evidence_record"
    " (connection_id, stream, record_key, sort_key, consent_time, link_1, link_2, link_3)",
    "ANALYZE evidence_recordchange (connection_id, stream, record_key, seq)",
    "ANALYZE evidence_searchtext (connection_id, stream, record_key, authored_at)",
)
PARTITIONS = """
SELECT DISTINCT (
    SELECT t.tableoid::regclass::text FROM evidence_searchtext t
    WHERE t.connection_id = c.connection_id LIMIT 1
) FROM unnest(%s::text[]) AS c(connection_id)
"""


@dataclass(slots=True)
class Upkeep:
    """Counts what a load has written, and sees to the indexes now and then."""

    written: int = 0
    pending: int = 0

    def note(self, written: int) -> None:
        self.written += written
        self.pending += written
        if self.pending >= PENDING_RECORDS:
            self._merge()

    def finish(self, connection_ids: Collection[str]) -> None:
        """Once the last batch is written, to these connections."""
        if self.pending:
            self._merge()
        if self.written >= MANY_RECORDS:
            _analyze(connection_ids)

    def _merge(self) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(MEMORY)
            cursor.execute(MERGE)
        self.pending = 0


def _analyze(connection_ids: Collection[str]) -> None:
    with connection.cursor() as cursor:
        for statement in ANALYZE:
            cursor.execute(statement)
        cursor.execute(PARTITIONS, [list(connection_ids)])
        for (partition,) in cursor.fetchall():
            if partition is not None:
                cursor.execute(f"ANALYZE {partition}")
