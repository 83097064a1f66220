"""Cache the number of the owner's records by month until a connection changes."""

import hashlib
from collections.abc import Sequence

import orjson
from django.core.cache import cache
from django.db.models.expressions import RawSQL

from evidence.access.record_counts import MonthCount, count_by_month
from evidence.access.records import VisibleRecords
from evidence.models.connections import Connection
from owner.records.periods import zone_name

CACHE_SECONDS = 3_600


def cached_month_counts(streams: Sequence[VisibleRecords]) -> list[MonthCount]:
    """Return the counts of streams of the owner's unrestricted scope. One or two queries."""
    ids = {facts.connection_id for each in streams for facts in each.connections}
    # The row version (xmin) distinguishes databases that gave one change number to different changes.
    rows = Connection.unscoped.filter(pk__in=ids).values_list(
        "pk", "change_seq", RawSQL("xmin::text", ())
    )
    change_numbers = {pk: numbers for pk, *numbers in rows}
    version = [
        (
            each.source.declaration_pk,
            each.stream.name,
            facts.connection_id,
            change_numbers.get(facts.connection_id),
        )
        for each in streams
        for facts in each.connections
    ]
    key = f"months-{hashlib.sha256(orjson.dumps([zone_name(), version])).hexdigest()}"
    counts: list[MonthCount] | None = cache.get(key)
    if counts is None:
        counts = count_by_month(streams, time_zone=zone_name())
        cache.set(key, counts, CACHE_SECONDS)
    return counts
