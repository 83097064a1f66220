"""Measure the size of tables and indexes, and the disk."""

import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg

from operations.postgres.server import url

MIB = 1024 * 1024
WRITES, PAGE_BYTES = 21, 8192
PARTS = """
-- A partitioned table takes no space itself; one that is not has no partitions.
SELECT t.name, sum(pg_table_size(p.relid)), sum(pg_indexes_size(p.relid))
FROM unnest('{evidence_record,evidence_searchtext,evidence_recordchange}'::text[]) AS t (name),
    LATERAL (
        SELECT t.name::regclass AS relid UNION SELECT relid FROM pg_partition_tree(t.name::regclass)
    ) AS p
GROUP BY 1
"""
TERMS = """
SELECT sum(pg_relation_size(i.inhrelid)) FROM pg_inherits i
WHERE i.inhparent = 'search_text_terms'::regclass
"""


def disk_milliseconds(var: Path) -> float:
    """Return the median time of a write that waits for the disk, as each answer does."""
    times: list[float] = []
    with tempfile.TemporaryFile(dir=var) as file:
        for _ in range(WRITES):
            file.write(bytes(PAGE_BYTES))
            file.flush()
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def sizes(var: Path) -> Mapping[str, float]:
    """Return sizes in MiB by name, and the search index as a share of the records."""
    with psycopg.connect(url(var / "postgres")) as connection:
        parts = {name: (table, indexes) for name, table, indexes in connection.execute(PARTS)}
        terms = (connection.execute(TERMS).fetchone() or (0,))[0]
    sizes_bytes = {
        "records, MiB": parts["evidence_record"][0],
        "indexes of records, MiB": parts["evidence_record"][1],
        "search text, MiB": parts["evidence_searchtext"][0],
        "search index, MiB": terms,
        "changes, MiB": sum(parts["evidence_recordchange"]),
    }
    sizes_mib = {name: float(size) / MIB for name, size in sizes_bytes.items()}
    return sizes_mib | {
        "search index to records": float(terms) / float(parts["evidence_record"][0])
    }
