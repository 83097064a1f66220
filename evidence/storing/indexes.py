"""What a large load leaves to be done, so that the next search does not pay for it."""

from collections.abc import Collection, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, transaction

PENDING_RECORDS = 2_000
"""How many records may wait to be merged into the search index while a load goes on. More at once
cost more for each: what is being merged should fit the processor's cache."""
MOST_PENDING_RECORDS = 10_000
"""How many, where they are merged beside a load that is faster."""
MANY_RECORDS = 5_000
"""From here on the planner's picture of the tables is worth renewing."""

# A merge need not outlive a crash: what it merged would wait again.
FOR_MERGING = (
    "SELECT set_config('maintenance_work_mem', '128MB', true),"
    " set_config('synchronous_commit', 'off', true)"
)
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
    """Counts what a load has written, and sees to the indexes now and then: ``beside`` the load
    where there is a thread for it."""

    beside: Executor | None = None
    written: int = 0
    pending: int = 0
    merging: Future[None] | None = None

    def note(self, written: int) -> None:
        """Raises ``DatabaseError``, also of a merge that was begun earlier."""
        self.written += written
        self.pending += written
        if self.pending < PENDING_RECORDS:
            return
        if self.beside is None:
            merge()
        elif self._is_free():
            self.merging = self.beside.submit(merge)
        else:
            return
        self.pending = 0

    def finish(self, connection_ids: Collection[str]) -> None:
        """Once the last batch is written, to these connections."""
        if self.merging is not None:
            self.merging.result()
        if self.pending:
            merge()
        if self.written >= MANY_RECORDS:
            _analyze(connection_ids)

    def _is_free(self) -> bool:
        """Whether no merge is under way; one that the load runs away from is waited for."""
        if self.merging is None:
            return True
        if self.merging.done() or self.pending >= MOST_PENDING_RECORDS:
            self.merging.result()
            return True
        return False


@contextmanager
def a_thread_beside() -> Iterator[Executor]:
    """A thread with a connection of its own, for a process that has one to spare."""
    with ThreadPoolExecutor(1, thread_name_prefix="merge") as executor:
        try:
            yield executor
        finally:
            executor.submit(_let_go).result()


def _let_go() -> None:
    """Closes the connection of the thread that this runs on."""
    connection.close()


def merge() -> None:
    """Merges what waits into the search index."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(FOR_MERGING)
        cursor.execute(MERGE)


def _analyze(connection_ids: Collection[str]) -> None:
    with connection.cursor() as cursor:
        for statement in ANALYZE:
            cursor.execute(statement)
        cursor.execute(PARTITIONS, [list(connection_ids)])
        for (partition,) in cursor.fetchall():
            if partition is not None:
                cursor.execute(f"ANALYZE {partition}")
