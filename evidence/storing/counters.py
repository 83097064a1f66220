"""How many records each stream holds and how fresh it is, kept as the records are written."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

APPLY = """
WITH counted AS (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::timestamptz[])
        AS n(connection_id, stream, added, latest)
), known AS (
    UPDATE evidence_streamstate t
    SET record_count = t.record_count + n.added,
        latest_emitted_at = greatest(t.latest_emitted_at, n.latest),
        updated_at = %s
    FROM counted n
    WHERE t.connection_id = n.connection_id AND t.stream = n.stream
    RETURNING t.connection_id, t.stream
)
INSERT INTO evidence_streamstate
    (connection_id, stream, record_count, latest_emitted_at, updated_at)
SELECT n.connection_id, n.stream, n.added, n.latest, %s
FROM counted n
WHERE NOT EXISTS (
    SELECT FROM known k WHERE k.connection_id = n.connection_id AND k.stream = n.stream
)
"""


@dataclass(slots=True)
class Count:
    """``added`` may be negative. ``latest`` is the latest time at which the source said anything
    new; erasing a record does not take that back."""

    added: int = 0
    latest: datetime | None = None

    def note(self, added: int, *, emitted_at: datetime | None) -> None:
        self.added += added
        if emitted_at is not None and (self.latest is None or emitted_at > self.latest):
            self.latest = emitted_at


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
                now,
                now,
            ],
        )
