"""How much each source takes in the database, and the page that shows it.

The sizes of tables are exact, with their indexes. A sample of pages shows how much of a table belongs to
which connection, so the time does not grow with the number of records. No value of a record is read.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evidence.access.sql import SQL, fetch_all
from evidence.models.connections import Connection
from owner.permissions import owner_required

SAMPLED_PAGES = 1_000
"""8 MB of each table. A table with fewer pages is read completely."""

SELECT_TABLES: Final = """
-- Bytes of every table with its indexes and large values, and pages of its rows. One query.
SELECT c.relname, sum(pg_total_relation_size(l.oid))::bigint,
    sum(pg_relation_size(l.oid) / current_setting('block_size')::int)::bigint
FROM pg_class c
LEFT JOIN pg_inherits i ON i.inhparent = c.oid
JOIN pg_class l ON l.oid = coalesce(i.inhrelid, c.oid)
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition
GROUP BY c.relname
"""
# Parameter: percentage of the pages, always the same ones. A toasted value counts as stored, without reading it.
SELECT_SHARES: Final[Mapping[str, str]] = {
    "evidence_record": """
SELECT connection_id, sum(200 + pg_column_size(data))::bigint
FROM evidence_record TABLESAMPLE SYSTEM (%s) REPEATABLE (1) GROUP BY connection_id
""",
    "evidence_recordchange": """
SELECT connection_id, sum(100 + coalesce(pg_column_size(before), 0))::bigint
FROM evidence_recordchange TABLESAMPLE SYSTEM (%s) REPEATABLE (1) GROUP BY connection_id
""",
    "evidence_searchtext": """
SELECT connection_id,
    sum(100 + pg_column_size(terms) + coalesce(pg_column_size(word_order), 0))::bigint
FROM evidence_searchtext TABLESAMPLE SYSTEM (%s) REPEATABLE (1) GROUP BY connection_id
""",
    "evidence_passage": """
SELECT connection_id, count(*)::bigint
FROM evidence_passage TABLESAMPLE SYSTEM (%s) REPEATABLE (1) GROUP BY connection_id
""",
    "evidence_blob": """
SELECT connection_id, count(*)::bigint
FROM evidence_blob TABLESAMPLE SYSTEM (%s) REPEATABLE (1) GROUP BY connection_id
""",
    "evidence_blobchunk": """
SELECT connection_id, sum(100 + pg_column_size(content))::bigint
FROM evidence_blobchunk TABLESAMPLE SYSTEM (%s) REPEATABLE (1) GROUP BY connection_id
""",
}
RECORD_TABLES = ("evidence_record", "evidence_recordchange")
BLOB_TABLES = ("evidence_blob", "evidence_blobchunk")
INDEX_TABLES = ("evidence_searchtext", "evidence_passage")


@dataclass(frozen=True, slots=True)
class StorageSizes:
    """Estimated bytes by connection, of records, blobs and the search index. The total is exact."""

    records: Mapping[str, int]
    blobs: Mapping[str, int]
    index: Mapping[str, int]
    total: int


def storage_sizes() -> StorageSizes:
    """Return the sizes. At most seven queries, of a bounded number of pages."""
    tables = {name: (size, pages) for name, size, pages in fetch_all(SQL(SELECT_TABLES))}
    shared = {name: _share(name, *tables[name]) for name in SELECT_SHARES if name in tables}
    total = sum(size for size, _ in tables.values())

    def combined(names: tuple[str, ...]) -> Counter[str]:
        return sum((shared[name] for name in names if name in shared), Counter[str]())

    return StorageSizes(
        combined(RECORD_TABLES), combined(BLOB_TABLES), combined(INDEX_TABLES), total=total
    )


def _share(table: str, size: int, pages: int) -> Counter[str]:
    """Divide the bytes of a table by the weights of the sampled rows."""
    percent = min(100.0, 100.0 * SAMPLED_PAGES / max(pages, 1))
    weights = dict(fetch_all(SQL(SELECT_SHARES[table], (percent,))))
    total = sum(weights.values())
    return Counter({name: size * weight // total for name, weight in weights.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSize:
    """The estimated bytes of one connection."""

    name: str
    source: str
    is_demo: bool
    records: int
    blobs: int
    index: int

    @property
    def total(self) -> int:
        return self.records + self.blobs + self.index


@require_safe
@owner_required
def storage_page(request: HttpRequest) -> HttpResponse:
    sizes = storage_sizes()
    rows = Connection.unscoped.select_related("source")
    lines = sorted(
        (_line(connection, sizes) for connection in rows), key=lambda each: (-each.total, each.name)
    )
    sources: dict[str, list[ConnectionSize]] = {}
    for line in lines:
        sources.setdefault(line.source, []).append(line)
    groups: list[dict[str, Any]] = [
        {"source": name, "total": sum(each.total for each in members), "connections": members}
        for name, members in sources.items()
    ]
    groups.sort(key=lambda group: (-group["total"], group["source"]))
    named = sum(line.total for line in lines)
    context = {
        "here": "storage",
        "total": sizes.total,
        "groups": groups,
        "largest": max((line.total for line in lines), default=0) or 1,
        "other": sizes.total - named,
    }
    return render(request, "owner/storage.html", context)


def _line(connection: Connection, sizes: StorageSizes) -> ConnectionSize:
    pk = connection.pk
    return ConnectionSize(
        name=connection.display_name,
        source=connection.source.display_name,
        is_demo=connection.demo,
        records=sizes.records.get(pk, 0),
        blobs=sizes.blobs.get(pk, 0),
        index=sizes.index.get(pk, 0),
    )
