"""Find records that changed since a bookmark, in one statement over all connections.

Rows are ordered by connection and key, because an order by change number would reveal hidden
changes. Changes that no visible state can show (of hidden fields only, of another stream, or of a
record never visible) are excluded, so they do not fill pages.

The statement also returns the head of the log and how much of the log is kept, from one snapshot.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from evidence.access.granted_streams import GrantedStream
from evidence.access.record_history import (
    ChangeCandidate,
    FeedPosition,
    LogHead,
    parse_candidate,
    parse_log_heads,
)
from evidence.access.records import RecordKey, VisibleRecords
from evidence.access.scope import Only, TimeRange
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

COLUMNS = "r.sort_key, r.emitted_at, r.field_emitted::text, r.data::text, r.change_seq"
LOG_HEADS = """
-- Heads of the change logs of some connections, as one row, with the columns of a candidate.
-- Parameters: owner id, connection ids. First part of the one query per page of changes.
SELECT jsonb_object_agg(k.connection_id, jsonb_build_array(k.change_seq, k.pruned_seq,
        k.changes_kept_since))::text AS heads,
    NULL::text AS connection_id, NULL::text AS record_key, NULL::text AS history,
    NULL::text AS sort_key, NULL::timestamptz AS emitted_at, NULL::text AS field_emitted,
    NULL::text AS data, NULL::bigint AS change_seq
FROM evidence_connection k WHERE k.owner_id = %s AND k.connection_id = ANY(%s)
"""
BOUNDS = {"id": "text", "since": "bigint", "until": "bigint", "start": "text"}
MAY_SHOW = "g.due AND (g.seen OR r.record_key IS NOT NULL)"


def find_candidates(
    visible: VisibleRecords,
    positions: Mapping[str, FeedPosition],
    *,
    after: RecordKey | None,
    limit: int,
) -> tuple[dict[str, LogHead], list[ChangeCandidate]]:
    """Return the log heads by connection id, and the next ``limit`` candidates. One query."""
    statement = SQL(LOG_HEADS, (current_owner(), sorted(positions))) + SQL(
        " UNION ALL (SELECT NULL, u.* FROM ("
    )
    statement += union_all(_branches(visible, positions, after, limit))
    statement += SQL(f") u ORDER BY u.connection_id, u.record_key LIMIT {int(limit)})")
    both = fetch_prepared(statement)
    head, *rows = sorted(both, key=lambda row: (row[1] or "", row[2] or ""))
    return parse_log_heads(head[0]), [parse_candidate(visible, row[1:]) for row in rows]


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
                rows = changed(restricted, grant, limit) + size
                yield _lateral(known, positions, after) + rows


def _lateral(
    ids: Sequence[str], positions: Mapping[str, FeedPosition], after: RecordKey | None
) -> SQL:
    """Return the start of a subquery for connections ``k``, with bounds in ``c``: since, until, start."""
    rows = [
        (
            id_,
            positions[id_].since,
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
            " CROSS JOIN LATERAL (SELECT n.since, coalesce(n.until, k.change_seq) AS until, n.start) c"
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
            f"SELECT r.record_key, NULL::text AS history, {COLUMNS} FROM evidence_record r"
            " WHERE r.owner_id = %s AND r.connection_id = k.connection_id AND r.record_key > c.start",
            (current_owner(),),
        )
        + group.condition
        + was_visible_before
        + SQL(f" ORDER BY r.record_key LIMIT {int(limit)}")
    )


def _few_changed(restricted: VisibleRecords, grant: GrantedStream, limit: int) -> SQL:
    """Return records with a change that may be visible, read by change number and sorted by key."""
    # ORDER BY and SORT_BLOCKER force the index by change number.
    return (
        SQL(f"SELECT g.record_key, g.history::text, {COLUMNS} FROM (SELECT x.record_key, ")
        + _history(grant)
        + SQL(
            f" FROM (SELECT *, {SORT_BLOCKER} FROM evidence_recordchange x"
            " WHERE x.owner_id = %s AND x.connection_id = k.connection_id"
            " AND x.seq > c.since ORDER BY x.seq OFFSET 0) x"
            " WHERE x.stream = %s AND x.record_key > c.start",
            (current_owner(), restricted.stream.name),
        )
        + _may_be_visible(restricted, grant)
        + SQL(" GROUP BY x.record_key ORDER BY x.record_key) g")
        + _record_of_key(restricted)
        + SQL(f" WHERE {MAY_SHOW} ORDER BY g.record_key LIMIT {int(limit)}")
    )


def _many_changed(restricted: VisibleRecords, grant: GrantedStream, limit: int) -> SQL:
    """Return the rows of ``_few_changed``, read key by key with a history subquery for each key.

    Each subquery selects one key as a range and orders by key, which forces the indexes by key.
    """
    return (
        SQL(f"SELECT g.record_key, g.history::text, {COLUMNS} FROM (")
        + _keys(restricted, grant)
        + SQL(" CROSS JOIN LATERAL (SELECT ")
        + _history(grant)
        + SQL(
            f" FROM (SELECT *, {SORT_BLOCKER} FROM evidence_recordchange x"
            " WHERE x.owner_id = %s AND x.connection_id = k.connection_id AND x.stream = %s"
            " AND x.record_key BETWEEN w.record_key AND w.record_key AND x.seq + 0 > c.since"
            " ORDER BY x.record_key OFFSET 0) x WHERE true",
            (current_owner(), restricted.stream.name),
        )
        + _may_be_visible(restricted, grant)
        + SQL(") h) g")
        + _record_of_key(restricted)
        + SQL(f" WHERE {MAY_SHOW} LIMIT {int(limit)}")
    )


def _record_of_key(restricted: VisibleRecords) -> SQL:
    """Return a left join of the key of ``g`` with its visible record ``r``."""
    group = restricted.groups[0]
    return (
        SQL(
            f" LEFT JOIN LATERAL (SELECT * FROM (SELECT *, {SORT_BLOCKER} FROM evidence_record r"
            " WHERE r.owner_id = %s AND r.connection_id = k.connection_id AND r.stream = %s"
            " AND r.record_key BETWEEN g.record_key AND g.record_key"
            " ORDER BY r.record_key LIMIT 1) r WHERE true",
            (current_owner(), restricted.stream.name),
        )
        + group.condition
        + SQL(") r ON true")
    )


def _keys(restricted: VisibleRecords, grant: GrantedStream) -> SQL:
    """Return ``SELECT w.record_key, h.*`` over keys ``w`` in order.

    They are the keys that the grant names, or else the changed keys, each found by an index probe.
    """
    if isinstance(grant.terms.records, Only):
        return SQL(
            'SELECT w.record_key, h.* FROM (SELECT n.name COLLATE "C" AS record_key'
            ' FROM unnest(%s::text[]) AS n(name) WHERE n.name COLLATE "C" > c.start) w',
            (sorted(grant.terms.records.names),),
        )
    probe = (
        f"SELECT x.record_key, {SORT_BLOCKER} FROM evidence_recordchange x"
        " WHERE x.owner_id = %s AND x.connection_id = k.connection_id AND x.stream = %s"
        " AND x.record_key > {} AND x.seq + 0 > c.since ORDER BY x.record_key LIMIT 1"
    )
    return SQL(
        f"WITH RECURSIVE w AS (SELECT u.record_key FROM ({probe.format('c.start')}) u"
        f" UNION ALL SELECT u.record_key FROM w CROSS JOIN LATERAL ({probe.format('w.record_key')}) u)"
        " SELECT w.record_key, h.* FROM w",
        (current_owner(), restricted.stream.name) * 2,
    )


def _history(grant: GrantedStream) -> SQL:
    """Return the history of a record: its changes, whether one is due, whether one was visible."""
    seen = SQL("(x.kind <> 'c'") + _in_range("x.consent_time_before", grant) + SQL(")")
    return (
        SQL("jsonb_agg(jsonb_build_array(x.seq, x.kind, x.before, ")
        + seen
        + SQL(", x.recorded_at) ORDER BY x.seq) AS history,")
        + SQL(" bool_or(x.seq <= c.until) AS due, bool_or(")
        + seen
        + SQL(") AS seen")
    )


def _may_be_visible(restricted: VisibleRecords, grant: GrantedStream) -> SQL:
    """Return a condition on changes ``x`` that create, delete or visibly modify a record."""
    condition = SQL("")
    if isinstance(grant.terms.records, Only):
        condition += SQL(" AND x.record_key = ANY(%s)", (sorted(grant.terms.records.names),))
    if isinstance(grant.terms.fields, Only):
        fields = set(grant.terms.fields.names)
        if grant.terms.time is not None and restricted.stream.consent_time_field is not None:
            fields.add(restricted.stream.consent_time_field)
        condition += SQL(" AND (x.kind <> 'u' OR x.before ?| %s)", (sorted(fields),))
    return condition


def _in_range(column: str, grant: GrantedStream) -> SQL:
    time = grant.terms.time
    return in_time_range(column, time) if isinstance(time, TimeRange) else SQL("")


def latest_change_numbers(connection_ids: Iterable[str]) -> Mapping[str, int]:
    """Return the latest change number of each existing connection. One query.

    Includes changes that a grant hides, so never show it to a client.
    """
    rows = Connection.unscoped.filter(connection_id__in=list(connection_ids))
    return dict(rows.values_list("connection_id", "change_seq"))
