"""Rebuild derived columns and search text, and maintain the indexes.

Reindexing rebuilds search text after a change of languages or analyzer. Each batch locks the
connection and saves its progress in one transaction, so runs can be interrupted or overlap, and
imports continue between batches.
"""

from collections.abc import Collection, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet, Sum

from evidence.models.connections import Connection, StreamState
from evidence.models.owners import current_owner, owners_of
from evidence.search.analysis import VERSION
from evidence.write import app_data, rows, vectors
from evidence.write.locks import lock_connections
from evidence.write.rows import Derived, RecordId, StoredRecord, derive, record_row
from evidence.write.targets import Target, connection_targets

RECOMPUTE_BATCH_SIZE = 500


def recompute_stream(target: Target) -> Iterator[int]:
    """Recompute derived columns and search text of a stream; yield the number of records per batch.

    Runs inside the caller's transaction, which locks the connection or its source. Adds no change
    entries, because no record changes.
    """
    vectors.delete_stream_vectors(target.connection_id, target.stream.name)
    after = ""
    while page := rows.load_page(
        target.connection_id, target.stream.name, after=after, limit=RECOMPUTE_BATCH_SIZE
    ):
        derived = _index(target, page)
        rows.delete_records(page)
        rows.add_records(map(record_row, derived, page.values()))
        after = max(ref.record_key for ref in page)
        yield len(page)


FLUSH_AFTER_RECORDS = 1_000
"""Records in the GIN pending list that trigger a flush. The index keeps the largest list's pages."""
ANALYZE_AFTER_RECORDS = 5_000
"""Imports of at least this many records run ANALYZE at the end."""

# A flush need not survive a crash: PostgreSQL would restore the pending list.
FLUSH_SETTINGS = (
    "SELECT set_config('maintenance_work_mem', '128MB', true),"
    " set_config('synchronous_commit', 'off', true)"
)
# The node that keeps the records answers, so its name of the partition can end with a number.
FLUSH_PENDING_LISTS = r"""
-- Merge the pending lists of the partitions of connections. Parameters: connection ids, owner id.
SELECT gin_clean_pending_list(regexp_replace(p.name, '_p\d+', '\&_terms_idx')::regclass)
FROM unnest(%s::text[]) AS c(connection_id)
CROSS JOIN LATERAL (
    SELECT t.tableoid::regclass::text AS name FROM evidence_searchtext AS t
    WHERE t.owner_id = %s AND t.connection_id = c.connection_id LIMIT 1
) AS p
"""
# Only columns that queries compare; sampling terms is slow, so only the written partitions get it.
ANALYZED_COLUMNS = {
    "evidence_record": (
        "(owner_id, connection_id, stream, record_key, sort_key, consent_time, link_1, link_2, link_3)"
    ),
    "evidence_recordchange": "(owner_id, connection_id, stream, record_key, seq)",
    "evidence_searchtext": "(owner_id, connection_id, stream, record_key, authored_at)",
}
PARTITIONS = r"""
-- List the partitions of connections. Parameters: connection ids, owner id. One query.
SELECT DISTINCT substring(p.name FROM '^.*_p\d+')
FROM unnest(%s::text[]) AS c(connection_id)
CROSS JOIN LATERAL (
    SELECT t.tableoid::regclass::text AS name FROM evidence_searchtext AS t
    WHERE t.owner_id = %s AND t.connection_id = c.connection_id LIMIT 1
) AS p
"""


@dataclass(slots=True)
class IndexMaintenance:
    """Flushes and analyzes indexes during an import, on ``executor`` if there is one."""

    executor: Executor | None = None
    written: int = 0
    unflushed: int = 0
    flush: Future[None] | None = None
    connection_ids: set[str] = field(default_factory=set)

    def note(self, written: int, connection_ids: Collection[str]) -> None:
        """Count records written to these connections, and flush if needed.

        Raises ``DatabaseError`` of any flush.
        """
        self.connection_ids.update(connection_ids)
        self.written += written
        self.unflushed += written
        if self.unflushed < FLUSH_AFTER_RECORDS:
            return
        self._await_flush()
        where = current_owner(), sorted(self.connection_ids)
        if self.executor is None:
            flush_pending_lists(*where)
        else:
            self.flush = self.executor.submit(flush_pending_lists, *where)
        self.unflushed = 0

    def finish(self) -> None:
        """Flush the rest, and analyze the tables of the connections after a large import."""
        self._await_flush()
        if self.unflushed:
            flush_pending_lists(current_owner(), sorted(self.connection_ids))
        if self.written >= ANALYZE_AFTER_RECORDS:
            _analyze(self.connection_ids, current_owner())

    def _await_flush(self) -> None:
        """Wait for the previous flush, so that the pending list never exceeds two batches."""
        if self.flush is not None:
            self.flush.result()


@contextmanager
def maintenance_thread() -> Iterator[Executor]:
    """Run a maintenance thread with its own database connection."""
    with ThreadPoolExecutor(1, thread_name_prefix="merge") as executor:
        try:
            yield executor
        finally:
            # Django connections are thread-local, so the thread closes its own.
            executor.submit(lambda: connection.close()).result()


def flush_pending_lists(owner_id: str, connection_ids: list[str]) -> None:
    """Merge the pending lists of these connections into the GIN index of search text."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(FLUSH_SETTINGS)
        cursor.execute(FLUSH_PENDING_LISTS, [connection_ids, owner_id])


def _analyze(connection_ids: Collection[str], owner_id: str) -> None:
    with connection.cursor() as cursor:
        for table, names in ANALYZED_COLUMNS.items():
            cursor.execute(f"ANALYZE {table} {names}")
        cursor.execute(PARTITIONS, [list(connection_ids), owner_id])
        for (partition,) in cursor.fetchall():
            cursor.execute(f"ANALYZE {partition}")


REINDEX_BATCH_SIZE = 200


@dataclass(frozen=True, slots=True)
class _Progress:
    """The last record reindexed, in order of stream and key, for these languages and analyzer.

    Field names are stored as JSON keys.
    """

    languages: list[str]
    analyser: int
    stream: str = ""
    after: str = ""


def outdated_connections() -> list[str]:
    """Return ids of connections with outdated search text, in one query."""
    connections = _outdated().order_by("connection_id")
    return list(connections.values_list("connection_id", flat=True))


def outdated_owners() -> list[str]:
    """Return the owners of connections with outdated search text. One query across owners."""
    return owners_of(_outdated)


def count_records(connection_ids: Collection[str]) -> int:
    """Return the number of records in these connections."""
    states = StreamState.unscoped.filter(connection_id__in=connection_ids)
    return states.aggregate(total=Sum("record_count"))["total"] or 0


def mark_outdated(connection_ids: Collection[str]) -> None:
    """Mark the search text of these connections as outdated, and what other apps derive."""
    connections = Connection.unscoped.filter(connection_id__in=connection_ids)
    connections.update(indexed_analyser=0, reindexing=None)
    for data in app_data.registered():
        data.rebuild(connection_ids)


def reindex(connection_ids: Collection[str]) -> Iterator[int]:
    """Reindex outdated search text; yield the number of records per batch.

    Raises ``DatabaseError``; finished batches stay.
    """
    maintenance = IndexMaintenance()
    for connection_id in connection_ids:
        while (count := reindex_batch(connection_id)) is not None:
            maintenance.note(count, [connection_id])
            yield count
    maintenance.finish()


def reindex_batch(connection_id: str, *, limit: int = REINDEX_BATCH_SIZE) -> int | None:
    """Reindex and commit the next records of a connection.

    Returns their number, or None when nothing is outdated.
    """
    with transaction.atomic():
        lock_connections([connection_id])
        row = _outdated().select_related("source").filter(connection_id=connection_id).first()
        return None if row is None else _advance(row, limit)


def _outdated() -> QuerySet[Connection]:
    is_current = Q(indexed_languages=F("languages"), indexed_analyser=VERSION)
    return Connection.unscoped.exclude(is_current)


def _advance(row: Connection, limit: int) -> int:
    progress = _load_progress(row)
    for target in sorted(connection_targets(row), key=lambda target: target.stream.name):
        name = target.stream.name
        if name < progress.stream or not target.layout["search"]:
            continue
        after = progress.after if name == progress.stream else ""
        page = rows.load_page(row.connection_id, name, after=after, limit=limit)
        if page:
            _index(target, page)
            last = max(ref.record_key for ref in page)
            _save_progress(row, _Progress(progress.languages, progress.analyser, name, last))
            return len(page)
    _finish(row)
    return 0


def _load_progress(row: Connection) -> _Progress:
    """Return the saved progress; start again if languages or analyzer changed since."""
    start = _Progress(row.languages, VERSION)
    if row.reindexing is None:
        return start
    saved = _Progress(**row.reindexing)
    is_current = (saved.languages, saved.analyser) == (start.languages, start.analyser)
    return saved if is_current else start


def _index(target: Target, page: dict[RecordId, StoredRecord]) -> list[Derived]:
    """Replace the search text of records, and return their derived columns."""
    derived = [derive(target, key=ref.record_key, data=state.data) for ref, state in page.items()]
    rows.delete_search_texts(page)
    rows.add_search_texts(columns.search for columns in derived if columns.search is not None)
    return derived


def _save_progress(row: Connection, progress: _Progress) -> None:
    row.reindexing = asdict(progress)
    row.save(update_fields=["reindexing"])


def _finish(row: Connection) -> None:
    row.reindexing = None
    row.indexed_languages, row.indexed_analyser = row.languages, VERSION
    row.save(update_fields=["reindexing", "indexed_languages", "indexed_analyser"])
