"""The streams of each connection, with what may be told of their size and freshness."""

from dataclasses import dataclass
from datetime import datetime

from evidence.access.counts import kept_counts
from evidence.access.gate import Gate
from evidence.access.rows import VisibleRecords
from evidence.access.scope import ConnectionFacts


@dataclass(frozen=True, slots=True)
class StreamRow:
    """``record_count`` and ``latest_at`` are None where a grant hides something of the stream."""

    visible: VisibleRecords
    connection: ConnectionFacts
    record_count: int | None
    latest_at: datetime | None


def listed(gate: Gate, *, connection_id: str | None) -> list[StreamRow]:
    """One row for each (stream, connection); one query beyond the token's."""
    chosen = gate.streams(connection_id=connection_id)
    counters = kept_counts(chosen)
    return [
        StreamRow(
            visible,
            facts,
            *counters.get((facts.connection_id, visible.stream.name), (None, None)),
        )
        for visible in chosen
        for facts in visible.connections
    ]
