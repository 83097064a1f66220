"""Records that may have changed since a bookmark, in one statement over all connections.

Rows come by connection and key: an order by change number would tell of hidden changes. Changes
that no state of the record can show (hidden fields only, another stream, out of sight throughout)
are left out here, so that they neither fill pages nor cost more than their place in an index.

Everything is read in one snapshot, the head of the log and how much of it is kept included.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from evidence.access.granted_streams import Sight
from evidence.access.record_history import Change, Reach
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import Only, TimeRange
from evidence.access.sql import Fragment, fetched_by_one_plan, joined, within
from evidence.models.connections import Connection

NEAR = 20_000
"""Up to so many changes are read by number and sorted; more are read in the order of the keys,
which costs the same for every page however many there are."""

UNSORTABLE = "NULL::char(10485760)"
"""A column without content that PostgreSQL takes for 40 MB a row, so that every plan with a sort looks
too expensive. An index that has the wanted order is then the only choice, whatever the statistics say:
without statistics, or with those of other data, an index on the wrong columns can look as cheap."""

COLUMNS = "r.sort_key, r.emitted_at, r.field_emitted::text, r.data::text, r.change_seq"
HEADS = """
SELECT jsonb_object_agg(k.connection_id, jsonb_build_array(k.change_seq, k.pruned_seq,
        k.changes_kept_since))::text AS heads,
    NULL::text AS connection_id, NULL::text AS record_key, NULL::text AS history,
    NULL::text AS sort_key, NULL::timestamptz AS emitted_at, NULL::text AS field_emitted,
    NULL::text AS data, NULL::bigint AS change_seq
FROM evidence_connection k WHERE k.connection_id = ANY(%s)
"""
SHOWS = "g.due AND (g.seen OR r.record_key IS NOT NULL)"


@dataclass(frozen=True, slots=True)
class Head:
    """The log of one connection: its latest number, and how much of it is kept."""

    seq: int
    pruned_seq: int
    kept_since: datetime | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that may have something to tell. ``record`` is None where it is not visible now;
    ``changes`` is empty where the client knows nothing of the connection yet."""

    sight: Sight
    connection_id: str
    record_key: str
    changes: tuple[Change, ...]
    record: VisibleRecord | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ended."""

    connection_id: str
    record_key: str


def candidates(
    visible: VisibleRecords, reaches: Mapping[str, Reach], *, after: Place | None, limit: int
) -> tuple[dict[str, Head], list[Candidate]]:
    """The heads of all connections, and the next ``limit`` candidates after a place; one query."""
    branches = [
        branch
        for sight in visible.sights
        for branch in _branches(visible, sight, reaches, after, limit)
    ]
    statement = Fragment(f"{HEADS} UNION ALL (SELECT NULL, u.* FROM (", (sorted(reaches),))
    statement += joined(" UNION ALL ", branches)
    statement += Fragment(f") u ORDER BY u.connection_id, u.record_key LIMIT {int(limit)})")
    head, *rows = sorted(
        fetched_by_one_plan(statement), key=lambda row: (row[1] or "", row[2] or "")
    )
    return _heads(head[0]), [_candidate(visible, row[1:]) for row in rows]


def _branches(
    visible: VisibleRecords,
    sight: Sight,
    reaches: Mapping[str, Reach],
    after: Place | None,
    limit: int,
) -> list[Fragment]:
    """The statements for the connections of one grant."""
    ids = [
        facts.connection_id
        for facts in sight.connections
        if facts.connection_id in reaches
        and (after is None or facts.connection_id >= after.connection_id)
    ]
    fresh = [each for each in ids if reaches[each].since is None]
    known = [each for each in ids if reaches[each].since is not None]
    alone = VisibleRecords(visible.source, visible.stream, visible.layout, (sight,))
    branches = []
    if fresh:
        branches.append(_lateral(fresh, reaches, after, _all_of(alone, sight, limit)))
    if known:
        for inner, reach in ((_few_changed, "<="), (_many_changed, ">")):
            way = Fragment(f" WHERE k.change_seq - c.since {reach} {NEAR}")
            branches.append(_lateral(known, reaches, after, inner(alone, sight, limit)) + way)
    return [Fragment("(") + branch + Fragment(")") for branch in branches]


def _lateral(
    ids: Sequence[str], reaches: Mapping[str, Reach], after: Place | None, inner: Fragment
) -> Fragment:
    """``inner`` for each connection ``k``, with its numbers and its place in ``c``."""
    starts = [
        after.record_key if after is not None and each == after.connection_id else ""
        for each in ids
    ]
    numbers = Fragment(
        "SELECT k.connection_id, u.* FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[])"
        " AS n(id, since, until, start) JOIN evidence_connection k ON k.connection_id = n.id"
        " CROSS JOIN LATERAL (SELECT n.since, coalesce(n.until, k.change_seq) AS until, n.start) c"
        " CROSS JOIN LATERAL (",
        (
            list(ids),
            [reaches[each].since for each in ids],
            [reaches[each].until for each in ids],
            starts,
        ),
    )
    return numbers + inner + Fragment(") u")


def _all_of(alone: VisibleRecords, sight: Sight, limit: int) -> Fragment:
    """Every visible record but those that came into sight only after the pages began."""
    [group] = alone.groups
    came_earlier = (
        Fragment(" AND (r.change_seq <= c.until OR coalesce((SELECT x.kind <> 'c'")
        + _in_range("x.consent_time_before", sight)
        + Fragment(
            " FROM evidence_recordchange x WHERE x.connection_id = k.connection_id"
            " AND x.stream = %s AND x.record_key = r.record_key AND x.seq > c.until"
            " ORDER BY x.seq LIMIT 1), true))",
            (alone.stream.name,),
        )
    )
    return (
        Fragment(
            f"SELECT r.record_key, NULL::text AS history, {COLUMNS} FROM evidence_record r"
            " WHERE r.connection_id = k.connection_id AND r.record_key > c.start"
        )
        + group.condition
        + came_earlier
        + Fragment(f" ORDER BY r.record_key LIMIT {int(limit)}")
    )


def _few_changed(alone: VisibleRecords, sight: Sight, limit: int) -> Fragment:
    """Records with a change that could show, visible at some time since or now: by number, sorted."""
    # ORDER BY and UNSORTABLE leave the index by number as the only choice.
    return (
        Fragment(f"SELECT g.record_key, g.history::text, {COLUMNS} FROM (SELECT x.record_key, ")
        + _history(sight)
        + Fragment(
            f" FROM (SELECT *, {UNSORTABLE} FROM evidence_recordchange x"
            " WHERE x.connection_id = k.connection_id AND x.seq > c.since ORDER BY x.seq OFFSET 0) x"
            " WHERE x.stream = %s AND x.record_key > c.start",
            (alone.stream.name,),
        )
        + _could_show(alone, sight)
        + Fragment(" GROUP BY x.record_key ORDER BY x.record_key) g")
        + _record_of_key(alone)
        + Fragment(f" WHERE {SHOWS} ORDER BY g.record_key LIMIT {int(limit)}")
    )


def _many_changed(alone: VisibleRecords, sight: Sight, limit: int) -> Fragment:
    """Return the same rows in the order of the keys: for each key its history and its record.

    Each subquery asks for one key as a range and in the order of the keys, so that only the indexes
    by key have its order.
    """
    return (
        Fragment(f"SELECT g.record_key, g.history::text, {COLUMNS} FROM (")
        + _keys(alone, sight)
        + Fragment(" CROSS JOIN LATERAL (SELECT ")
        + _history(sight)
        + Fragment(
            f" FROM (SELECT *, {UNSORTABLE} FROM evidence_recordchange x"
            " WHERE x.connection_id = k.connection_id AND x.stream = %s"
            " AND x.record_key BETWEEN w.record_key AND w.record_key AND x.seq + 0 > c.since"
            " ORDER BY x.record_key OFFSET 0) x WHERE true",
            (alone.stream.name,),
        )
        + _could_show(alone, sight)
        + Fragment(") h) g")
        + _record_of_key(alone)
        + Fragment(f" WHERE {SHOWS} LIMIT {int(limit)}")
    )


def _record_of_key(alone: VisibleRecords) -> Fragment:
    """Join the visible record ``r`` with the key of ``g``, if there is one."""
    [group] = alone.groups
    return (
        Fragment(
            f" LEFT JOIN LATERAL (SELECT * FROM (SELECT *, {UNSORTABLE} FROM evidence_record r"
            " WHERE r.connection_id = k.connection_id AND r.stream = %s"
            " AND r.record_key BETWEEN g.record_key AND g.record_key"
            " ORDER BY r.record_key LIMIT 1) r WHERE true",
            (alone.stream.name,),
        )
        + group.condition
        + Fragment(") r ON true")
    )


def _keys(alone: VisibleRecords, sight: Sight) -> Fragment:
    """``SELECT w.record_key, h.*`` over keys ``w`` in their order: those that changed, each found
    by a probe of its own, or those that the grant names."""
    if isinstance(sight.terms.records, Only):
        return Fragment(
            'SELECT w.record_key, h.* FROM (SELECT n.name COLLATE "C" AS record_key'
            ' FROM unnest(%s::text[]) AS n(name) WHERE n.name COLLATE "C" > c.start) w',
            (sorted(sight.terms.records.names),),
        )
    probe = (
        f"SELECT x.record_key, {UNSORTABLE} FROM evidence_recordchange x"
        " WHERE x.connection_id = k.connection_id AND x.stream = %s"
        " AND x.record_key > {} AND x.seq + 0 > c.since ORDER BY x.record_key LIMIT 1"
    )
    return Fragment(
        f"WITH RECURSIVE w AS (SELECT u.record_key FROM ({probe.format('c.start')}) u"
        f" UNION ALL SELECT u.record_key FROM w CROSS JOIN LATERAL ({probe.format('w.record_key')}) u)"
        " SELECT w.record_key, h.* FROM w",
        (alone.stream.name, alone.stream.name),
    )


def _history(sight: Sight) -> Fragment:
    """The columns of a record's changes: all of them, whether one came in time, whether one was seen."""
    seen = Fragment("(x.kind <> 'c'") + _in_range("x.consent_time_before", sight) + Fragment(")")
    return (
        Fragment("jsonb_agg(jsonb_build_array(x.seq, x.kind, x.before, ")
        + seen
        + Fragment(", x.recorded_at) ORDER BY x.seq) AS history,")
        + Fragment(" bool_or(x.seq <= c.until) AS due, bool_or(")
        + seen
        + Fragment(") AS seen")
    )


def _could_show(alone: VisibleRecords, sight: Sight) -> Fragment:
    """Changes that come or go, touch a granted field or move the record in time where that counts."""
    condition = Fragment("")
    if isinstance(sight.terms.records, Only):
        condition += Fragment(" AND x.record_key = ANY(%s)", (sorted(sight.terms.records.names),))
    if isinstance(sight.terms.fields, Only):
        told = set(sight.terms.fields.names)
        if sight.terms.time is not None and alone.stream.consent_time_field is not None:
            told.add(alone.stream.consent_time_field)
        condition += Fragment(" AND (x.kind <> 'u' OR x.before ?| %s)", (sorted(told),))
    return condition


def _in_range(column: str, sight: Sight) -> Fragment:
    time = sight.terms.time
    return within(column, time) if isinstance(time, TimeRange) else Fragment("")


def _heads(text: str | None) -> dict[str, Head]:
    return {
        connection_id: Head(seq, pruned, datetime.fromisoformat(since) if since else None)
        for connection_id, (seq, pruned, since) in orjson.loads(text or "{}").items()
    }


def _candidate(visible: VisibleRecords, row: Sequence[Any]) -> Candidate:
    connection_id, record_key, history, *columns, change_seq = row
    changes = tuple(
        Change(seq, kind, before or {}, seen, datetime.fromisoformat(at))
        for seq, kind, before, seen, at in orjson.loads(history or "[]")
    )
    is_there = change_seq is not None
    return Candidate(
        sight=visible.sight_of[connection_id],
        connection_id=connection_id,
        record_key=record_key,
        changes=changes,
        record=visible.cut((connection_id, record_key, *columns)) if is_there else None,
    )


def latest_changes(connection_ids: Iterable[str]) -> Mapping[str, int]:
    """connection_id -> number, for those that exist; one query."""
    rows = Connection.unscoped.filter(connection_id__in=list(connection_ids))
    return dict(rows.values_list("connection_id", "change_seq"))
