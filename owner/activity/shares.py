"""The share of each source that each app was shown: a table of sources and apps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import stored_counts
from evidence.ledger.shown_records import shown_records
from owner.activity.reading_text import Names, activity_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Distinct records that one app was shown of one source, as often as it read them."""

    shown: int
    total: int

    @property
    def percent(self) -> str:
        """Return the share rounded down: 100 means all records, and a little is not nothing."""
        whole = min(100, 100 * self.shown // self.total) if self.total else 0
        return str(whole) if whole else "<1"

    @property
    def shade(self) -> int:
        """Return 0 to 5, for the color."""
        return min(5, -(-5 * self.shown // self.total)) if self.total else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTable:
    apps: Sequence[tuple[str, str]]
    """Name and address of each column."""
    rows: Sequence[tuple[str, Sequence[Share]]]
    counted_at: datetime


def share_table(owner_id: str, names: Names, *, now: datetime) -> ShareTable | None:
    """Return the table of sources and apps that read any of them; None if nothing is counted."""
    shown = shown_records(owner_id, now=now)
    clients = sorted(shown, key=lambda pk: names.client(pk).casefold())
    if not clients:
        return None
    scope = owner_scope(owner_id)
    totals: Counter[int] = Counter()
    for (connection_id, _), (records, _) in stored_counts(Gate(scope).streams()).items():
        totals[scope.connections[connection_id].source_pk] += records
    by_source: Counter[tuple[str, int]] = Counter()
    for client in clients:
        for connection_id, count in shown[client].by_connection.items():
            if connection_id in scope.connections:
                by_source[client, scope.connections[connection_id].source_pk] += count
    sources = sorted(scope.sources.values(), key=lambda source: source.display_name.casefold())
    return ShareTable(
        apps=[(names.client(pk), activity_url(client=pk)) for pk in clients],
        rows=[
            (
                source.display_name,
                [
                    Share(shown=by_source[client, source.source_pk], total=totals[source.source_pk])
                    for client in clients
                ],
            )
            for source in sources
            if totals[source.source_pk]
        ],
        counted_at=min(shown[client].counted_at for client in clients),
    )
