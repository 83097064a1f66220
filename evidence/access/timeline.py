"""Count visible records and search matches by period of their consent time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from evidence.access.granted_streams import GrantedStream
from evidence.access.ranking.scores import StreamQuery, select_matches
from evidence.access.records import VisibleRecords
from evidence.access.scope import TimeRange
from evidence.access.sql import SQL, fetch_all, join_sql

COUNT_BY_MONTH: Final = """
-- Records per stream, connection and month, with the first and last time of each.
-- Parameters: those of the rows. One query.
SELECT u.number, u.connection_id, date_trunc('month', u.at AT TIME ZONE 'UTC')::date AS month,
    count(*), min(u.at), max(u.at)
FROM ({rows}) u GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 NULLS LAST
"""
ROW: Final = "%s::int AS number, r.connection_id, r.consent_time AS at"


@dataclass(frozen=True, slots=True)
class MonthCount:
    """Records of one connection and stream in one month (UTC); `month` is None without a time."""

    number: int
    """Position of the stream, or of the query, in the arguments."""
    connection_id: str
    month: date | None
    records: int
    first: datetime | None
    last: datetime | None


def count_by_month(streams: Sequence[VisibleRecords]) -> list[MonthCount]:
    """Return the number of visible records per stream, connection and month. One query."""
    rows = (each.select(SQL(ROW, (number,))) for number, each in enumerate(streams))
    return _counts(list(rows))


def count_matches_by_month(queries: Sequence[StreamQuery]) -> list[MonthCount]:
    """Return the number of matches of each query per connection and month. One query."""
    rows = (
        select_matches(query, SQL(ROW, (number,)), [query.terms.matching])
        for number, query in enumerate(queries)
    )
    return _counts(list(rows))


def _counts(rows: Sequence[SQL]) -> list[MonthCount]:
    if not rows:
        return []
    union = join_sql(" UNION ALL ", rows)
    found = fetch_all(SQL(COUNT_BY_MONTH.format(rows=union.text), union.values))
    return [MonthCount(*row) for row in found]


def within(visible: VisibleRecords, time: TimeRange) -> VisibleRecords:
    """Return the records of an unrestricted stream within a time range."""
    granted = (
        GrantedStream(each.grant_id, replace(each.terms, time=time), each.connections)
        for each in visible.granted
    )
    return visible.restricted_to(*granted)
