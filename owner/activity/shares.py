"""The share of each source that each app was shown: a table of sources and apps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import stored_counts
from evidence.ledger.readings import count_rows, count_shown_records
from owner.activity.reading_text import Names, activity_url

SMALL_LEDGER = 5_000
"""Up to this many rows, the table is counted for each page."""
RECOUNT_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Distinct records that one app was shown of one source, as often as it read them."""

    shown: int
    total: int

    @property
    def percent(self) -> int:
        """Return the share, rounded up so that a little is not shown as nothing."""
        return min(100, -(-100 * self.shown // self.total)) if self.total else 0

    @property
    def shade(self) -> int:
        """Return 0 to 5, for the color."""
        return -(-self.percent // 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTable:
    apps: Sequence[tuple[str, str]]
    """Name and address of each column."""
    rows: Sequence[tuple[str, Sequence[Share]]]
    counted_at: datetime


def share_table(owner_id: str, names: Names) -> ShareTable | None:
    """Return the table of sources and apps that read any of them; None if no app read a record."""
    counted_at, shown = _shown_records(owner_id)
    clients = sorted({client for client, _ in shown}, key=lambda pk: names.client(pk).casefold())
    if not clients:
        return None
    scope = owner_scope(owner_id)
    totals: Counter[int] = Counter()
    for (connection_id, _), (records, _) in stored_counts(Gate(scope).streams()).items():
        totals[scope.connections[connection_id].source_pk] += records
    by_source: Counter[tuple[str, int]] = Counter()
    for (client, connection_id), count in shown.items():
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
        counted_at=counted_at,
    )


def _shown_records(owner_id: str) -> tuple[datetime, dict[tuple[str, str], int]]:
    """Return time and result of the last count: a count of a large ledger reads all of it."""
    now, key = timezone.now(), f"shown-records-{owner_id}"
    counted: tuple[datetime, dict[tuple[str, str], int]] | None = cache.get(key)
    is_recent = counted is not None and now - counted[0] < RECOUNT_AFTER
    if counted is not None and is_recent and count_rows(owner_id) > SMALL_LEDGER:
        return counted
    counted = now, count_shown_records(owner_id)
    cache.set(key, counted, None)
    return counted
