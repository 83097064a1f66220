"""What a large load leaves to be done, so that the next search does not pay for it."""

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
TABLES = ("evidence_record", "evidence_recordchange", "evidence_searchtext")


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

    def finish(self) -> None:
        if self.pending:
            self._merge()
        if self.written >= MANY_RECORDS:
            with connection.cursor() as cursor:
                for table in TABLES:
                    cursor.execute(f"ANALYZE {table}")

    def _merge(self) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(MEMORY)
            cursor.execute(MERGE)
        self.pending = 0
