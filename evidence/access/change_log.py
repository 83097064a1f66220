"""Find the records whose changes since a bookmark a grant shows, in one statement over all connections.

A change counts when the grant showed the record before it and a granted field is among those that
changed, and when it moved the record into or out of what the grant shows. Changes of hidden fields and
changes while the record was not visible never count (design, section 5).

Rows are ordered by connection and key, because an order by change number would reveal hidden
changes. The statement also returns the head of each log and how much of it is kept, from one snapshot.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson

from evidence.access.records import RecordKey, VisibleRecord, VisibleRecords
from evidence.access.scope import ConnectionFacts, GrantedStream, Only, TimeRange
from evidence.access.sql import (
    NO_SORT,
    SQL,
    fetch_prepared,
    fill,
    in_time_range,
    union_all,
    value_table,
)
from evidence.models.connections import Connection
from evidence.models.owners import current_owner

MAX_SORTED_CHANGES = 20_000
"""Above this many changes, page through keys instead of sorting by change number: the cost per page
stays constant."""


@dataclass(frozen=True, slots=True)
class LogHead:
    """The change log of one connection: its latest change number and how much of it is kept.

    Numbers include changes that a grant hides, so never show them to a client.
    """

    seq: int
    pruned_seq: int
    kept_since: datetime | None


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """How far a client has read the changes of one connection, in change numbers.

    The client knows the state of a record at some moment from ``since`` to ``known``. They differ if
    something was written while earlier pages were read. ``since`` is None if the client knows nothing
    yet. The current pages end at ``until``, which is None before the first page.
    """

    since: int | None
    known: int = 0
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A record that was visible and no longer is, for any reason."""

    connection: ConnectionFacts
    record_key: str
    gone_at: datetime


FeedItem = VisibleRecord | Tombstone

CHANGES: Final = """
-- One page of changes, ordered by connection and key. The first row has the heads of the change logs:
-- latest change number, pruned number, time from which changes are kept. Part: items of connections. One query.
SELECT jsonb_object_agg(k.connection_id, jsonb_build_array(k.change_seq, k.pruned_seq,
        k.changes_kept_since))::text AS heads,
    NULL::text AS connection_id, NULL::text AS record_key, NULL::timestamptz AS gone_at,
    NULL::text AS sort_key, NULL::timestamptz AS emitted_at, NULL::text AS field_emitted,
    NULL::text AS data
FROM evidence_connection k WHERE k.owner_id = {owner} AND k.connection_id = ANY({connections})
UNION ALL (
    SELECT NULL, u.* FROM ({items}) u ORDER BY u.connection_id, u.record_key LIMIT {limit}
)
"""
ITEMS_OF_CONNECTIONS: Final = """
(SELECT k.connection_id, u.*
FROM {bounds}
JOIN evidence_connection k ON k.owner_id = {owner} AND k.connection_id = n.id
CROSS JOIN LATERAL (
    SELECT n.since, n.known, coalesce(n.until, k.change_seq) AS until, n.start
) c
CROSS JOIN LATERAL ({items}) u{size})
"""
"""The items of some connections k, within the bounds c of each."""
BOUNDS: Final = {
    "id": "text", "since": "bigint", "known": "bigint", "until": "bigint", "start": "text"
}  # fmt: skip
COLUMNS: Final = SQL("r.sort_key, r.emitted_at, r.field_emitted::text, r.data::text")
ALL_VISIBLE: Final = """
SELECT r.record_key, NULL::timestamptz AS gone_at, {columns}
FROM evidence_record r
WHERE r.owner_id = {owner} AND r.connection_id = k.connection_id AND r.record_key > c.start{terms}
    AND (r.change_seq <= c.until OR coalesce((
        SELECT x.kind <> 'c'{was_in_range}
        FROM evidence_recordchange x
        WHERE x.owner_id = {owner} AND x.connection_id = k.connection_id
            AND x.stream = {stream} AND x.record_key = r.record_key AND x.seq > c.until
        ORDER BY x.seq LIMIT 1
    ), true))
ORDER BY r.record_key LIMIT {limit}
"""
"""Every visible record of a connection, except those that became visible after the first page."""
CHANGED: Final = """
SELECT g.record_key, g.gone_at, {columns}
FROM ({histories}) g
LEFT JOIN LATERAL (
    SELECT * FROM (
        SELECT *, {no_sort} FROM evidence_record r
        WHERE r.owner_id = {owner} AND r.connection_id = k.connection_id AND r.stream = {stream}
            AND r.record_key BETWEEN g.record_key AND g.record_key
        ORDER BY r.record_key LIMIT 1
    ) r
    WHERE true{terms}
) r ON true
WHERE (g.counts OR g.last_due AND g.last_seen <> (r.record_key IS NOT NULL))
    AND (r.record_key IS NOT NULL OR g.first_seen OR g.counts_known)
LIMIT {limit}
"""
"""What is shown of changed keys: of those whose changes count, and which the client has or may have."""
HISTORIES: Final = """
SELECT x.record_key,
    max(x.recorded_at) FILTER (WHERE x.seen) AS gone_at,
    coalesce(bool_or(x.counts AND x.seq <= c.until), false) AS counts,
    coalesce(bool_or(x.counts AND x.seq <= c.known), false) AS counts_known,
    max(x.seq) <= c.until AS last_due,
    (array_agg(x.seen ORDER BY x.seq))[1] AS first_seen,
    (array_agg(x.seen ORDER BY x.seq DESC))[1] AS last_seen
FROM (
    SELECT x.record_key, x.seq, x.recorded_at, x.seen, x.seen AND x.shows
        OR x.seen <> lead(x.seen) OVER (PARTITION BY x.record_key ORDER BY x.seq) AS counts
    FROM (
        SELECT x.record_key, x.seq, x.recorded_at, x.kind <> 'c'{was_in_range} AS seen,
            {shows} AS shows
        FROM ({changes}) x WHERE {chosen}
    ) x
) x
GROUP BY x.record_key{order}
"""
"""The history of each key in some changes.

Whether the record was visible after its last change is known only from the record itself, so ``counts``
leaves out whether that change moved it.
"""
CHANGES_BY_NUMBER: Final = """
SELECT *, {no_sort} FROM evidence_recordchange x
WHERE x.owner_id = {owner} AND x.connection_id = k.connection_id AND x.seq > c.since
ORDER BY x.seq OFFSET 0
"""
"""The changes of a connection. The order forces the index by change number."""
CHANGES_OF_KEY: Final = """
SELECT *, {no_sort} FROM evidence_recordchange x
WHERE x.owner_id = {owner} AND x.connection_id = k.connection_id AND x.stream = {stream}
    AND x.record_key BETWEEN w.record_key AND w.record_key AND x.seq + 0 > c.since
ORDER BY x.record_key OFFSET 0
"""
"""The changes of a key w. A range of one key, in order by key, forces the index by key."""
HISTORIES_BY_KEY: Final = """
{keys}
CROSS JOIN LATERAL ({history}) h
"""
NAMED_KEYS: Final = """
SELECT h.* FROM (
    SELECT n.name COLLATE "C" AS record_key
    FROM unnest({names}::text[]) AS n(name) WHERE n.name COLLATE "C" > c.start
) w
"""
"""The keys that a grant names, in order."""
CHANGED_KEYS: Final = """
WITH RECURSIVE w AS (
    SELECT u.record_key FROM (
        {probe} AND x.record_key > c.start ORDER BY x.record_key LIMIT 1
    ) u
    UNION ALL
    SELECT u.record_key FROM w CROSS JOIN LATERAL (
        {probe} AND x.record_key > w.record_key ORDER BY x.record_key LIMIT 1
    ) u
)
SELECT h.* FROM w
"""
"""The changed keys in order, each found by one probe of the index, which skips any number of keys of which
only hidden fields have changed."""
PROBE: Final = """
SELECT x.record_key, {no_sort} FROM evidence_recordchange x
WHERE x.owner_id = {owner} AND x.connection_id = k.connection_id AND x.stream = {stream}
    AND x.seq + 0 > c.since{shows}
"""


def find_items(
    visible: VisibleRecords,
    positions: Mapping[str, FeedPosition],
    *,
    after: RecordKey | None,
    limit: int,
) -> tuple[dict[str, LogHead], list[FeedItem]]:
    """Return the log heads by connection id, and the next ``limit`` items of the feed. One query."""
    statement = fill(
        CHANGES,
        owner=current_owner(),
        connections=sorted(positions),
        items=union_all(_branches(visible, positions, after, SQL(f"{limit:d}"))),
        limit=SQL(f"{limit:d}"),
    )
    both = fetch_prepared(statement)
    head, *rows = sorted(both, key=lambda row: (row[1] or "", row[2] or ""))
    heads = {
        connection_id: LogHead(seq, pruned, datetime.fromisoformat(since) if since else None)
        for connection_id, (seq, pruned, since) in orjson.loads(head[0] or "{}").items()
    }
    return heads, [_item(visible, *row[1:]) for row in rows]


def _item(
    visible: VisibleRecords,
    connection_id: str,
    record_key: str,
    gone_at: datetime,
    *columns: object,
) -> FeedItem:
    if columns[-1] is None:
        return Tombstone(visible.connection_for[connection_id], record_key, gone_at)
    return visible.project((connection_id, record_key, *columns))


def _branches(
    visible: VisibleRecords,
    positions: Mapping[str, FeedPosition],
    after: RecordKey | None,
    limit: SQL,
) -> Iterator[SQL]:
    """Yield the items of the connections that have a position, per grant."""
    for grant in visible.granted:
        ids = [
            facts.connection_id
            for facts in grant.connections
            if facts.connection_id in positions
            and (after is None or facts.connection_id >= after.connection_id)
        ]
        if new := [id_ for id_ in ids if positions[id_].since is None]:
            items = _all_visible(visible, grant, limit)
            yield _of_connections(new, positions, after, items, SQL(""))
        if known := [id_ for id_ in ids if positions[id_].since is not None]:
            for histories, sign in ((_few_changed, "<="), (_many_changed, ">")):
                items = _changed(visible, grant, histories(visible, grant), limit)
                size = SQL(f" WHERE k.change_seq - c.since {sign} {MAX_SORTED_CHANGES}")
                yield _of_connections(known, positions, after, items, size)


def _of_connections(
    ids: Sequence[str],
    positions: Mapping[str, FeedPosition],
    after: RecordKey | None,
    items: SQL,
    size: SQL,
) -> SQL:
    bounds = [
        (
            id_,
            positions[id_].since,
            positions[id_].known,
            positions[id_].until,
            after.record_key if after is not None and id_ == after.connection_id else "",
        )
        for id_ in ids
    ]
    return fill(
        ITEMS_OF_CONNECTIONS,
        owner=current_owner(),
        bounds=value_table("n", BOUNDS, bounds),
        items=items,
        size=size,
    )


def _all_visible(visible: VisibleRecords, grant: GrantedStream, limit: SQL) -> SQL:
    return fill(
        ALL_VISIBLE,
        columns=COLUMNS,
        owner=current_owner(),
        stream=visible.stream.name,
        terms=_terms(visible, grant),
        was_in_range=_was_in_range(grant),
        limit=limit,
    )


def _terms(visible: VisibleRecords, grant: GrantedStream) -> SQL:
    return visible.restricted_to(grant).groups[0].condition


def _was_in_range(grant: GrantedStream) -> SQL:
    """Return a condition that a record was in the time range of a grant before a change ``x``."""
    time = grant.terms.time
    return in_time_range("x.consent_time_before", time) if isinstance(time, TimeRange) else SQL("")


def _changed(visible: VisibleRecords, grant: GrantedStream, histories: SQL, limit: SQL) -> SQL:
    return fill(
        CHANGED,
        columns=COLUMNS,
        histories=histories,
        no_sort=NO_SORT,
        owner=current_owner(),
        stream=visible.stream.name,
        terms=_terms(visible, grant),
        limit=limit,
    )


def _few_changed(visible: VisibleRecords, grant: GrantedStream) -> SQL:
    """Return the histories of changed keys, read by change number and sorted by key."""
    chosen = SQL("x.stream = %s AND x.record_key > c.start", (visible.stream.name,))
    if isinstance(grant.terms.records, Only):
        chosen += SQL(" AND x.record_key = ANY(%s)", (sorted(grant.terms.records.names),))
    changes = fill(CHANGES_BY_NUMBER, no_sort=NO_SORT, owner=current_owner())
    return _histories(grant, changes, chosen, SQL(" ORDER BY x.record_key"))


def _many_changed(visible: VisibleRecords, grant: GrantedStream) -> SQL:
    """Return the rows of ``_few_changed``, read key by key with a history subquery for each key."""
    of_stream = {"no_sort": NO_SORT, "owner": current_owner(), "stream": visible.stream.name}
    history = _histories(grant, fill(CHANGES_OF_KEY, **of_stream), SQL("true"), SQL(""))
    if isinstance(grant.terms.records, Only):
        keys = fill(NAMED_KEYS, names=sorted(grant.terms.records.names))
        return fill(HISTORIES_BY_KEY, keys=keys, history=history)
    shows = SQL("")
    if isinstance(grant.terms.fields, Only):
        names = {*grant.terms.fields.names, visible.stream.consent_time_field or ""}
        shows = SQL(" AND (x.kind <> 'u' OR x.changed && %s)", (sorted(names),))
    keys = fill(CHANGED_KEYS, probe=fill(PROBE, **of_stream, shows=shows))
    return fill(HISTORIES_BY_KEY, keys=keys, history=history)


def _histories(grant: GrantedStream, changes: SQL, chosen: SQL, order: SQL) -> SQL:
    fields = grant.terms.fields
    shows = SQL("x.kind = 'u'")
    if isinstance(fields, Only):
        shows = SQL("coalesce(x.changed && %s, false)", (sorted(fields.names),))
    was_in_range = _was_in_range(grant)
    return fill(
        HISTORIES,
        was_in_range=was_in_range,
        shows=shows,
        changes=changes,
        chosen=chosen,
        order=order,
    )


def latest_change_numbers(connection_ids: Iterable[str]) -> Mapping[str, int]:
    """Return the latest change number of each existing connection. One query.

    Includes changes that a grant hides, so never show it to a client.
    """
    rows = Connection.unscoped.filter(connection_id__in=list(connection_ids))
    return dict(rows.values_list("connection_id", "change_seq"))
