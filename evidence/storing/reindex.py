"""Making search text anew where it is of other languages or of another analyser.

Batch by batch, each in a transaction of its own that holds the connection as every writer does and
keeps how far it has come. So a run may be cut short, two may be under way at once, and imports go on
between batches: what they store is of the present kind already. Records stay as they are.
"""

from collections.abc import Collection, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet, Sum

from evidence.models.connections import Connection, StreamState
from evidence.search.analysis import VERSION
from evidence.storing import rows, vector_table
from evidence.storing.derivation import State, derive, record_row
from evidence.storing.locks import hold
from evidence.storing.rows import Ref
from evidence.storing.targets import Target, targets_of

DERIVE_BATCH_SIZE = 500


def rederive(target: Target) -> Iterator[int]:
    """Derives every record of a stream of a connection anew, batch by batch; how many each time.

    Runs inside the caller's transaction, which holds the connection or its source. Leaves no
    change entries: no record says anything new.
    """
    vector_table.forget_streams(target.connection_id, target.stream.name)
    after = ""
    while page := rows.page(
        target.connection_id, target.stream.name, after=after, limit=DERIVE_BATCH_SIZE
    ):
        derived = {
            ref: derive(target, key=ref.record_key, data=state.data) for ref, state in page.items()
        }
        rows.delete_records(page)
        rows.delete_search(page)
        rows.add_records(record_row(derived[ref], state) for ref, state in page.items())
        rows.add_search(each.search for each in derived.values() if each.search is not None)
        after = max(ref.record_key for ref in page)
        yield len(page)


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


RECORDS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a connection has come: after a record of a stream, for these languages and this
    analyser. Streams go by name."""

    languages: list[str]
    analyser: int
    stream: str = ""
    after: str = ""

    def kept(self) -> dict[str, Any]:
        return {
            "languages": self.languages,
            "analyser": self.analyser,
            "stream": self.stream,
            "after": self.after,
        }


def pending() -> list[str]:
    """The connections whose search text is not all of the present kind; one query."""
    found = _outdated().order_by("connection_id")
    return list(found.values_list("connection_id", flat=True))


def records_of(connection_ids: Collection[str]) -> int:
    """How many records these connections hold."""
    states = StreamState.unscoped.filter(connection_id__in=connection_ids)
    return states.aggregate(total=Sum("record_count"))["total"] or 0


def make_pending(connection_ids: Collection[str]) -> None:
    """Lets everything in these connections be indexed anew from the beginning."""
    rows_named = Connection.unscoped.filter(connection_id__in=connection_ids)
    rows_named.update(indexed_analyser=0, reindexing=None)


def reindex(connection_ids: Collection[str]) -> Iterator[int]:
    """Indexes what is pending in these connections, batch by batch; how many records each time.

    Raises ``DatabaseError``; what was done before stays.
    """
    upkeep = Upkeep()
    for connection_id in connection_ids:
        while (count := reindex_some(connection_id)) is not None:
            upkeep.note(count)
            yield count
    upkeep.finish(connection_ids)


def reindex_some(connection_id: str, *, limit: int = RECORDS_AT_ONCE) -> int | None:
    """Indexes the next records of a connection, durably; how many, None when nothing is pending."""
    with transaction.atomic():
        hold([connection_id])
        row = _outdated().select_related("source").filter(connection_id=connection_id).first()
        return None if row is None else _advance(row, limit)


def _outdated() -> QuerySet[Connection]:
    same = Q(indexed_languages=F("languages"), indexed_analyser=VERSION)
    return Connection.unscoped.exclude(same)


def _advance(row: Connection, limit: int) -> int:
    place = _place(row)
    for target in sorted(targets_of(row), key=lambda each: each.stream.name):
        name = target.stream.name
        if name < place.stream or not target.layout["search"]:
            continue
        after = place.after if name == place.stream else ""
        page = rows.page(row.connection_id, name, after=after, limit=limit)
        if page:
            _index(target, page)
            last = max(ref.record_key for ref in page)
            _keep(row, _Place(place.languages, place.analyser, name, last))
            return len(page)
    _finish(row)
    return 0


def _place(row: Connection) -> _Place:
    """Where to go on; at the beginning when what is wanted has changed since."""
    start = _Place(row.languages, VERSION)
    if row.reindexing is None:
        return start
    kept = _Place(**row.reindexing)
    wanted = (kept.languages, kept.analyser) == (start.languages, start.analyser)
    return kept if wanted else start


def _index(target: Target, page: dict[Ref, State]) -> None:
    derived = [derive(target, key=ref.record_key, data=state.data) for ref, state in page.items()]
    rows.delete_search(page)
    rows.add_search(each.search for each in derived if each.search is not None)


def _keep(row: Connection, place: _Place) -> None:
    row.reindexing = place.kept()
    row.save(update_fields=["reindexing"])


def _finish(row: Connection) -> None:
    row.reindexing = None
    row.indexed_languages, row.indexed_analyser = row.languages, VERSION
    row.save(update_fields=["reindexing", "indexed_languages", "indexed_analyser"])
