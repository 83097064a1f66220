"""Counts and extents over visible rows, and the counters that are kept where nothing is hidden."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from evidence.access.rows import VisibleRecords
from evidence.access.scope import Everything
from evidence.access.statements import Fragment, fetched


def count(visible: VisibleRecords, where: Sequence[Fragment] = ()) -> int:
    """How many visible rows ``where`` leaves; one query."""
    branches = visible.matching(Fragment("count(*) AS n"), where)
    total = Fragment("SELECT coalesce(sum(u.n), 0)::bigint FROM (") + branches + Fragment(") u")
    return int(fetched(total)[0][0])


def time_bounds(
    visible: VisibleRecords, where: Sequence[Fragment] = ()
) -> tuple[datetime | None, datetime | None]:
    """The earliest and the latest consent time of what ``where`` leaves; one query."""
    columns = Fragment("min(r.consent_time) AS low, max(r.consent_time) AS high")
    branches = visible.matching(columns, where)
    row = fetched(Fragment("SELECT min(u.low), max(u.high) FROM (") + branches + Fragment(") u"))[0]
    return row[0], row[1]


def records_at(
    visible: VisibleRecords, times: Iterable[datetime | None], where: Sequence[Fragment] = ()
) -> list[tuple[str, str]]:
    """Return connection and key of one record for each of these consent times; one query."""
    wanted = [each for each in times if each is not None]
    at = Fragment(" AND r.consent_time = ANY(%s)", (wanted,))
    columns = Fragment("r.connection_id, r.record_key, r.consent_time")
    statement = Fragment("SELECT DISTINCT ON (u.consent_time) u.connection_id, u.record_key FROM (")
    statement += visible.matching(columns, [*where, at])
    order = Fragment(") u ORDER BY u.consent_time, u.connection_id, u.record_key")
    return [(one, key) for one, key in fetched(statement + order)]


def names_of(
    visible: VisibleRecords, where: Sequence[Fragment] = (), *, limit: int
) -> list[tuple[str, str]]:
    """Return connection and key of up to ``limit`` visible rows; one query."""
    rows = visible.matching(Fragment("r.connection_id, r.record_key"), where)
    statement = Fragment("SELECT u.* FROM (") + rows + Fragment(") u LIMIT %s", (limit,))
    return [(one, key) for one, key in fetched(statement)]


def kept_counts(
    streams: Iterable[VisibleRecords],
) -> Mapping[tuple[str, str], tuple[int, datetime | None]]:
    """(connection_id, stream) -> records and latest emitted time, from the counters; one query.

    Only where a grant hides no row of the stream: a counter knows nothing of grants. A grant of all
    declared fields gets the time that counts those; a narrower one gets none, because a hidden
    change moves it.
    """
    wanted = {
        (facts.connection_id, visible.stream.name): visible
        for visible in streams
        if visible.is_whole
        for facts in visible.connections
    }
    if not wanted:
        return {}
    rows = fetched(
        Fragment(
            "SELECT s.connection_id, s.stream, s.record_count, s.latest_emitted_at,"
            " s.latest_declared_at FROM evidence_streamstate s WHERE s.connection_id = ANY(%s)",
            (sorted({connection_id for connection_id, _ in wanted}),),
        )
    )
    kept = {
        (connection_id, stream): (records, _shown_time(wanted[connection_id, stream], *latest))
        for connection_id, stream, records, *latest in rows
        if (connection_id, stream) in wanted
    }
    return {key: kept.get(key, (0, None)) for key in wanted}


def _shown_time(
    visible: VisibleRecords, latest: datetime | None, declared: datetime | None
) -> datetime | None:
    """Return the latest time that counts only fields which every grant concerned shows, if any."""
    if all(isinstance(sight.terms.fields, Everything) for sight in visible.sights):
        return latest
    return declared if all(map(visible.shows, visible.stream.fields)) else None
