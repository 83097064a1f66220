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

import orjson

from evidence.access.granted_streams import GrantedStream
from evidence.access.records import RecordKey, VisibleRecord, VisibleRecords
from evidence.access.scope import ConnectionFacts, Only, TimeRange
from evidence.access.sql import (
    SORT_BLOCKER,
    SQL,
    fetch_prepared,
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
COLUMNS = "r.sort_key, r.emitted_at, r.field_emitted::text, r.data::text"
LOG_HEADS = """
-- Heads of the change logs of some connections, as one row, with the columns of an item of the feed.
-- Parameters: owner id, connection ids. First part of the one query per page of changes.
SELECT jsonb_object_agg(k.connection_id, jsonb_build_array(k.change_seq, k.pruned_seq,
        k.changes_kept_since))::text AS heads,
    NULL::text AS connection_id, NULL::text AS record_key, NULL::timestamptz AS gone_at,
    NULL::text AS sort_key, NULL::timestamptz AS emitted_at, NULL::text AS field_emitted,
    NULL::text AS data
FROM evidence_connection k WHERE k.owner_id = %s AND k.connection_id = ANY(%s)
"""
BOUNDS = {"id": "text", "since": "bigint", "known": "bigint", "until": "bigint", "start": "text"}
SELECT_SHOWN = f"SELECT g.record_key, g.gone_at, {COLUMNS} FROM ("
SHOWN = """(g.counts OR g.last_due AND g.last_seen <> (r.record_key IS NOT NULL))
    AND (r.record_key IS NOT NULL OR g.first_seen OR g.counts_known)"""
"""Whether changes ``g`` of a record count, and the client has the record or may have it."""


def find_items(
    visible: VisibleRecords,
    positions: Mapping[str, FeedPosition],
    *,
    after: RecordKey | None,
    limit: int,
) -> tuple[dict[str, LogHead], list[FeedItem]]:
    """Return the log heads by connection id, and the next ``limit`` items of the feed. One query."""
    statement = SQL(LOG_HEADS, (current_owner(), sorted(positions))) + SQL(
        " UNION ALL (SELECT NULL, u.* FROM ("
    )
    statement += union_all(_branches(visible, positions, after, limit))
    statement += SQL(f") u ORDER BY u.connection_id, u.record_key LIMIT {int(limit)})")
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
    limit: int,
) -> Iterator[SQL]:
    """Yield the subqueries for the connections that have a position."""
    for grant in visible.granted:
        ids = [
            facts.connection_id
            for facts in grant.connections
            if facts.connection_id in positions
            and (after is None or facts.connection_id >= after.connection_id)
        ]
        restricted = VisibleRecords(visible.source, visible.stream, visible.layout, (grant,))
        if new := [id_ for id_ in ids if positions[id_].since is None]:
            rows = _all_visible(restricted, grant, limit) + SQL(") u)")
            yield _lateral(new, positions, after) + rows
        if known := [id_ for id_ in ids if positions[id_].since is not None]:
            for changed, sign in ((_few_changed, "<="), (_many_changed, ">")):
                size = SQL(f") u WHERE k.change_seq - c.since {sign} {MAX_SORTED_CHANGES})")
                rows = SQL(SELECT_SHOWN) + changed(restricted, grant)
                rows += _with_records(restricted, limit) + size
                yield _lateral(known, positions, after) + rows


def _lateral(
    ids: Sequence[str], positions: Mapping[str, FeedPosition], after: RecordKey | None
) -> SQL:
    """Return the start of a subquery for connections ``k``, with bounds in ``c``."""
    rows = [
        (
            id_,
            positions[id_].since,
            positions[id_].known,
            positions[id_].until,
            after.record_key if after is not None and id_ == after.connection_id else "",
        )
        for id_ in ids
    ]
    return (
        SQL("(SELECT k.connection_id, u.* FROM ")
        + value_table("n", BOUNDS, rows)
        + SQL(
            " JOIN evidence_connection k ON k.owner_id = %s AND k.connection_id = n.id"
            " CROSS JOIN LATERAL (SELECT n.since, n.known,"
            " coalesce(n.until, k.change_seq) AS until, n.start) c"
            " CROSS JOIN LATERAL (",
            (current_owner(),),
        )
    )


def _all_visible(restricted: VisibleRecords, grant: GrantedStream, limit: int) -> SQL:
    """Return every visible record, except those that became visible after the first page."""
    group = restricted.groups[0]
    was_visible_before = (
        SQL(" AND (r.change_seq <= c.until OR coalesce((SELECT x.kind <> 'c'")
        + _in_range("x.consent_time_before", grant)
        + SQL(
            " FROM evidence_recordchange x"
            " WHERE x.owner_id = %s AND x.connection_id = k.connection_id"
            " AND x.stream = %s AND x.record_key = r.record_key AND x.seq > c.until"
            " ORDER BY x.seq LIMIT 1), true))",
            (current_owner(), restricted.stream.name),
        )
    )
    return (
        SQL(
            f"SELECT r.record_key, NULL::timestamptz AS gone_at, {COLUMNS} FROM evidence_record r"
            " WHERE r.owner_id = %s AND r.connection_id = k.connection_id AND r.record_key > c.start",
            (current_owner(),),
        )
        + group.condition
        + was_visible_before
        + SQL(f" ORDER BY r.record_key LIMIT {int(limit)}")
    )


def _few_changed(restricted: VisibleRecords, grant: GrantedStream) -> SQL:
    """Return the changed keys ``g`` with their history, read by change number and sorted by key."""
    # ORDER BY and SORT_BLOCKER force the index by change number.
    source = SQL(
        f"SELECT *, {SORT_BLOCKER} FROM evidence_recordchange x"
        " WHERE x.owner_id = %s AND x.connection_id = k.connection_id"
        " AND x.seq > c.since ORDER BY x.seq OFFSET 0",
        (current_owner(),),
    )
    condition = SQL("x.stream = %s AND x.record_key > c.start", (restricted.stream.name,))
    if isinstance(grant.terms.records, Only):
        condition += SQL(" AND x.record_key = ANY(%s)", (sorted(grant.terms.records.names),))
    history = _history(grant, source, condition)
    return history + SQL(" GROUP BY x.record_key ORDER BY x.record_key")


def _many_changed(restricted: VisibleRecords, grant: GrantedStream) -> SQL:
    """Return the rows of ``_few_changed``, read key by key with a history subquery for each key.

    Each subquery selects one key as a range and orders by key, which forces the indexes by key.
    """
    source = SQL(
        f"SELECT *, {SORT_BLOCKER} FROM evidence_recordchange x"
        " WHERE x.owner_id = %s AND x.connection_id = k.connection_id AND x.stream = %s"
        " AND x.record_key BETWEEN w.record_key AND w.record_key AND x.seq + 0 > c.since"
        " ORDER BY x.record_key OFFSET 0",
        (current_owner(), restricted.stream.name),
    )
    history = _history(grant, source, SQL("true")) + SQL(" GROUP BY x.record_key")
    return _keys(restricted, grant) + SQL(" CROSS JOIN LATERAL (") + history + SQL(") h")


def _with_records(restricted: VisibleRecords, limit: int) -> SQL:
    """Return the end of a subquery: what is shown of the keys ``g`` and their visible records ``r``."""
    group = restricted.groups[0]
    return (
        SQL(
            f") g LEFT JOIN LATERAL (SELECT * FROM (SELECT *, {SORT_BLOCKER} FROM evidence_record r"
            " WHERE r.owner_id = %s AND r.connection_id = k.connection_id AND r.stream = %s"
            " AND r.record_key BETWEEN g.record_key AND g.record_key"
            " ORDER BY r.record_key LIMIT 1) r WHERE true",
            (current_owner(), restricted.stream.name),
        )
        + group.condition
        + SQL(f") r ON true WHERE {SHOWN} LIMIT {int(limit)}")
    )


def _keys(restricted: VisibleRecords, grant: GrantedStream) -> SQL:
    """Return ``SELECT h.*`` over keys ``w`` in order.

    They are the keys that the grant names, or else the changed keys, each found by an index probe.
    """
    if isinstance(grant.terms.records, Only):
        return SQL(
            'SELECT h.* FROM (SELECT n.name COLLATE "C" AS record_key'
            ' FROM unnest(%s::text[]) AS n(name) WHERE n.name COLLATE "C" > c.start) w',
            (sorted(grant.terms.records.names),),
        )
    probe = SQL(
        f"SELECT x.record_key, {SORT_BLOCKER} FROM evidence_recordchange x"
        " WHERE x.owner_id = %s AND x.connection_id = k.connection_id AND x.stream = %s"
        " AND x.seq + 0 > c.since",
        (current_owner(), restricted.stream.name),
    )
    if isinstance(grant.terms.fields, Only):
        # One probe skips any number of keys of which only hidden fields have changed.
        names = {*grant.terms.fields.names, restricted.stream.consent_time_field or ""}
        probe += SQL(" AND (x.kind <> 'u' OR x.changed && %s)", (sorted(names),))
    return (
        SQL("WITH RECURSIVE w AS (SELECT u.record_key FROM (")
        + probe
        + SQL(" AND x.record_key > c.start ORDER BY x.record_key LIMIT 1) u")
        + SQL(" UNION ALL SELECT u.record_key FROM w CROSS JOIN LATERAL (")
        + probe
        + SQL(" AND x.record_key > w.record_key ORDER BY x.record_key LIMIT 1) u)")
        + SQL(" SELECT h.* FROM w")
    )


def _history(grant: GrantedStream, source: SQL, condition: SQL) -> SQL:
    """Return the start of a query of the changes ``source``, to be grouped by key.

    Whether the record was visible after its last change is known only from the record itself, so
    ``counts`` leaves out whether that change moved it.
    """
    terms, fields = grant.terms, SQL("x.kind = 'u'")
    if isinstance(terms.fields, Only):
        fields = SQL("coalesce(x.changed && %s, false)", (sorted(terms.fields.names),))
    return (
        SQL(
            "SELECT x.record_key,"
            " max(x.recorded_at) FILTER (WHERE x.seen) AS gone_at,"
            " coalesce(bool_or(x.counts AND x.seq <= c.until), false) AS counts,"
            " coalesce(bool_or(x.counts AND x.seq <= c.known), false) AS counts_known,"
            " max(x.seq) <= c.until AS last_due,"
            " (array_agg(x.seen ORDER BY x.seq))[1] AS first_seen,"
            " (array_agg(x.seen ORDER BY x.seq DESC))[1] AS last_seen"
            " FROM (SELECT x.record_key, x.seq, x.recorded_at, x.seen, x.seen AND x.shows"
            " OR x.seen <> lead(x.seen) OVER (PARTITION BY x.record_key ORDER BY x.seq) AS counts"
            " FROM (SELECT x.record_key, x.seq, x.recorded_at, x.kind <> 'c'"
        )
        + _in_range("x.consent_time_before", grant)
        + SQL(" AS seen, ")
        + fields
        + SQL(" AS shows FROM (")
        + source
        + SQL(") x WHERE ")
        + condition
        + SQL(") x) x")
    )


def _in_range(column: str, grant: GrantedStream) -> SQL:
    time = grant.terms.time
    return in_time_range(column, time) if isinstance(time, TimeRange) else SQL("")


def latest_change_numbers(connection_ids: Iterable[str]) -> Mapping[str, int]:
    """Return the latest change number of each existing connection. One query.

    Includes changes that a grant hides, so never show it to a client.
    """
    rows = Connection.unscoped.filter(connection_id__in=list(connection_ids))
    return dict(rows.values_list("connection_id", "change_seq"))
