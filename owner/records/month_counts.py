"""Cache the number of the owner's records by month, for each connection until it changes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson
from django.core.cache import cache
from django.db.models.expressions import RawSQL

from evidence.access.granted_streams import GrantedStream
from evidence.access.record_counts import MonthCount, count_by_month
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.models.connections import Connection
from owner.records.periods import plausible_period, zone_name

CACHE_SECONDS = 3_600


def cached_month_counts(streams: Sequence[VisibleRecords]) -> list[MonthCount]:
    """Return the counts of streams of the owner's unrestricted scope. One or two queries."""
    ids = {facts.connection_id for each in streams for facts in each.connections}
    # The row version (xmin) distinguishes databases that gave one change number to different changes.
    rows = Connection.unscoped.filter(pk__in=ids).values_list(
        "pk", "change_seq", RawSQL("xmin::text", ())
    )
    change_numbers = {pk: numbers for pk, *numbers in rows}
    branches = {
        _key(each, facts, change_numbers): (number, _of_connection(each, granted, facts))
        for number, each in enumerate(streams)
        for granted in each.granted
        for facts in granted.connections
    }
    known: dict[str, list[MonthCount]] = cache.get_many(branches)
    if missing := [key for key in branches if key not in known]:
        added: dict[str, list[MonthCount]] = {key: [] for key in missing}
        changed = [branches[key][1] for key in missing]
        for count in count_by_month(changed, time_zone=zone_name()):
            added[missing[count.number]].append(count)
        cache.set_many(added, CACHE_SECONDS)
        known |= added
    return [
        replace(count, number=number)
        for key, (number, _) in branches.items()
        for count in known[key]
    ]


def has_other_dates(visible: VisibleRecords) -> bool:
    """Return whether records of the owner's unrestricted stream have dates that are not plausible."""
    since, until = plausible_period(visible.stream).bounds(visible.stream)
    return any(
        count.first < since or count.last >= until
        for count in cached_month_counts([visible])
        if count.first and count.last
    )


def _of_connection(
    visible: VisibleRecords, granted: GrantedStream, facts: ConnectionFacts
) -> VisibleRecords:
    return visible.restricted_to(GrantedStream(granted.grant_id, granted.terms, (facts,)))


def _key(
    visible: VisibleRecords, facts: ConnectionFacts, change_numbers: Mapping[str, list[object]]
) -> str:
    version = [
        zone_name(),
        visible.source.declaration_pk,
        visible.stream.name,
        facts.connection_id,
        change_numbers.get(facts.connection_id),
    ]
    return f"months-{hashlib.sha256(orjson.dumps(version)).hexdigest()}"
