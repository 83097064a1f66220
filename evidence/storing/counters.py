"""How many records each stream holds and how fresh it is, kept as the records are written."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

APPLY = """
WITH counted AS (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::timestamptz[], %s::timestamptz[])
        AS n(connection_id, stream, added, latest, declared)
), known AS (
    UPDATE evidence_streamstate t
    SET record_count = t.record_count + n.added,
        latest_emitted_at = greatest(t.latest_emitted_at, n.latest),
        latest_declared_at = greatest(t.latest_declared_at, n.declared),
        updated_at = %s
    FROM counted n
    WHERE t.connection_id = n.connection_id AND t.stream = n.stream
    RETURNING t.connection_id, t.stream
)
INSERT INTO evidence_streamstate
    (connection_id, stream, record_count, latest_emitted_at, latest_declared_at, updated_at)
SELECT n.connection_id, n.stream, n.added, n.latest, n.declared, %s
FROM counted n
WHERE NOT EXISTS (
    SELECT FROM known k WHERE k.connection_id = n.connection_id AND k.stream = n.stream
)
"""

RECOUNT_DECLARED = """
-- The latest time at which a declared field of one stream was emitted. Reads all its records.
UPDATE evidence_streamstate t
SET latest_declared_at = (
    SELECT max(coalesce((r.field_emitted ->> f.name)::timestamptz, r.emitted_at))
    FROM evidence_record r
    JOIN unnest(%(fields)s::text[]) AS f(name) ON r.data ? f.name
    WHERE r.connection_id = %(connection_id)s AND r.stream = %(stream)s
)
WHERE t.connection_id = %(connection_id)s AND t.stream = %(stream)s
"""


@dataclass(slots=True)
class Count:
    """``added`` may be negative. ``latest`` is the latest time at which the source said anything
    new, ``declared`` the latest for a declared field; erasing a record does not take that back."""

    added: int = 0
    latest: datetime | None = None
    declared: datetime | None = None

    def note(self, added: int, *, emitted_at: datetime | None, declared: bool) -> None:
        self.added += added
        if emitted_at is None:
            return
        self.latest = max(self.latest or emitted_at, emitted_at)
        if declared:
            self.declared = max(self.declared or emitted_at, emitted_at)


def save_counts(counts: Mapping[tuple[str, str], Count], *, now: datetime) -> None:
    """Adds the counts by (connection_id, stream); the connections are held."""
    with connection.cursor() as cursor:
        cursor.execute(
            APPLY,
            [
                [connection_id for connection_id, _ in counts],
                [stream for _, stream in counts],
                [count.added for count in counts.values()],
                [count.latest for count in counts.values()],
                [count.declared for count in counts.values()],
                now,
                now,
            ],
        )


def recount_declared(connection_id: str, stream: str, fields: Collection[str]) -> None:
    """Set ``latest_declared_at`` after the declared fields of a stream changed."""
    asked: dict[str, str | list[str]] = {
        "connection_id": connection_id, "stream": stream, "fields": list(fields),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(RECOUNT_DECLARED, asked)
