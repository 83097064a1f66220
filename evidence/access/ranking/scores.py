"""Score and order matching records in SQL, from granted fields only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from evidence.access.records import VisibleRecords
from evidence.access.scope import Only
from evidence.access.sql import (
    MAX_NAMED_CONNECTIONS,
    SQL,
    ConnectionGroup,
    fetch_prepared,
    join_sql,
    owner_is,
    union_all,
)
from evidence.models.owners import current_owner

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query compiled for one stream, as tsquery texts.

    ``matching`` selects the matches. ``tiers`` has one tuple per word: the queries for the word at each
    tier, from the highest to the lowest. ``weights`` multiply the scores of the words. ``required`` is a
    condition on a matching row ``r`` without which its texts cannot contain the phrases of the query.
    """

    matching: str
    tiers: tuple[tuple[str, ...], ...]
    weights: tuple[int, ...] = ()
    required: SQL | None = None


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """One stream with a query over its granted fields only.

    If ``has_few_rows``, so few rows are visible that each may be tested for a match.
    """

    visible: VisibleRecords
    terms: CompiledQuery
    has_few_rows: bool = False

    @property
    def shows_time(self) -> bool:
        """Return whether the consent time is visible and may order hits; if hidden, it counts as missing."""
        return self.visible.shows(self.visible.stream.consent_time_field)

    @property
    def is_restricted(self) -> bool:
        """Return whether a grant restricts times or records, so that hidden records may match."""
        return any(
            grant.terms.time is not None or isinstance(grant.terms.records, Only)
            for grant in self.visible.granted
        )


@dataclass(frozen=True, slots=True)
class HitPosition:
    """A position in the order of hits: score, then time (None last), then id."""

    score: int
    at: datetime | None
    connection_id: str
    stream: str
    record_key: str


class SearchHitKey(NamedTuple):
    """The sort key of a match of the stream ``number``; ``at`` is in microseconds since 1970.

    Without ``is_possible``, the texts do not contain the phrases of the query.
    """

    number: int
    score: int
    at: int | None
    connection_id: str
    stream: str
    record_key: str
    is_possible: bool = True

    @property
    def rank(self) -> HitPosition:
        at = None if self.at is None else _EPOCH + self.at * _MICROSECOND
        return HitPosition(self.score, at, self.connection_id, self.stream, self.record_key)


SortKey: TypeAlias = tuple[Any, ...]


def hit_key(rank: HitPosition) -> SearchHitKey:
    """Return a key that sorts like the position."""
    at = None if rank.at is None else (rank.at - _EPOCH) // _MICROSECOND
    return SearchHitKey(-1, rank.score, at, rank.connection_id, rank.stream, rank.record_key)


def time_order(hit: SearchHitKey) -> SortKey:
    """Return a sort key: newest first, then hits without a time, then by id."""
    ids = hit.connection_id, hit.stream, hit.record_key
    return (hit.at is None, -(hit.at or 0), *ids)


def best_first(hit: SearchHitKey) -> SortKey:
    return (-hit.score, *time_order(hit))


def newest_first(hit: SearchHitKey) -> SortKey:
    is_untimed, at, *ids = time_order(hit)
    return (is_untimed, at, -hit.score, *ids)


def hit_keys(rows: Sequence[Sequence[Any]]) -> list[SearchHitKey]:
    return [SearchHitKey(*row) for row in rows]


TERM_SCORE = 4
"""Score of a word at its lowest tier. No tier of one word outweighs a second word."""

TIME_INDEXED_TEXT = (
    "(SELECT owner_id, connection_id, stream, record_key, terms, word_order,"
    " authored_at AS consent_time FROM evidence_searchtext) r"
)
TERM_INDEXED_TEXT = (
    "(SELECT owner_id, connection_id, stream || '' AS stream, record_key, terms, word_order,"
    " authored_at + interval '0' AS consent_time FROM evidence_searchtext) r"
)
"""The same table, but its expressions cannot use the indexes by stream. The choice
of the index must not depend on row estimates: searches by term must use the inverted index alone,
because reading all entries of a large stream besides takes longer than the rows of other streams."""
SCORE_ORDER = "u.score DESC, u.at DESC NULLS LAST, u.connection_id, u.stream, u.record_key"
TIME_ORDER = "u.at DESC NULLS LAST, u.score DESC, u.connection_id, u.stream, u.record_key"
SELECT_HIT_KEYS = (
    "SELECT p.number, p.score, (extract(epoch FROM p.at) * 1000000)::bigint, p.connection_id,"
    " p.stream, p.record_key, p.is_possible"
)


def select_matches(
    query: StreamQuery, columns: SQL, tsqueries: Sequence[str], *, but_not: str | None = None
) -> SQL:
    """Return ``SELECT columns`` of the visible rows ``r`` that match all ``tsqueries``.

    ``but_not`` excludes matches of another query, tested on the rows that the others find.
    """
    indexed, tested = " AND r.terms @@ %s::tsquery", " AND (r.terms @@ %s::tsquery) IS TRUE"
    tests = [SQL(tested if query.has_few_rows else indexed, (tsquery,)) for tsquery in tsqueries]
    if but_not is not None:
        tests.append(SQL(" AND (r.terms @@ %s::tsquery) IS FALSE", (but_not,)))
    start = SQL("SELECT ") + columns
    return union_all(
        start + rows + join_sql("", tests)
        for group in query.visible.groups
        for rows in rows_of_connections(group, has_few_rows=query.has_few_rows)
    )


def matches_condition(connection_ids: list[str], stream: str, tsquery: str) -> SQL:
    """Return a condition that the search text of a row ``r`` of any table matches."""
    return SQL(
        "(r.connection_id, r.record_key) IN (SELECT t.connection_id, t.record_key"
        " FROM evidence_searchtext t WHERE t.owner_id = %s AND t.connection_id = ANY(%s)"
        " AND t.stream = %s AND t.terms @@ %s::text::tsquery)",
        (current_owner(), connection_ids, stream, tsquery),
    )


def rows_of_connections(group: ConnectionGroup, *, has_few_rows: bool) -> Iterator[SQL]:
    """Yield FROM and WHERE per connection, each in one partition, or once for all if they are many."""
    table = TIME_INDEXED_TEXT if has_few_rows else TERM_INDEXED_TEXT
    by_key = group if has_few_rows else replace(group, record_keys=None)
    ids = group.connection_ids
    if len(ids) > MAX_NAMED_CONNECTIONS:
        rows = SQL(f" FROM {table} WHERE ") + owner_is()
        yield rows + SQL("r.connection_id = ANY(%s)", (ids,)) + group.condition
        return
    for connection_id in ids:
        yield by_key.rows(SQL("%s", (connection_id,)), table)


def hit_columns(number: int, query: StreamQuery, score: SQL) -> SQL:
    """Return the columns of a ``SearchHitKey``; ``fetch_hit_keys`` converts the time to a number."""
    at = "r.consent_time" if query.shows_time else "NULL::timestamptz"
    columns = SQL("%s::int AS number, ", (number,)) + score
    columns += SQL(f" AS score, {at} AS at, r.connection_id, r.stream, r.record_key, ")
    return columns + (query.terms.required or SQL("true")) + SQL(" AS is_possible")


def score_sql(query: StreamQuery) -> SQL:
    """Return the score of a row as SQL over its terms."""
    terms = query.terms
    words = join_sql(" + ", map(_word_score, terms.tiers, terms.weights))
    return words if words.text else SQL("0")


def first_hits(
    queries: Sequence[StreamQuery], *, limit: int, after: SearchHitKey | None, newest: bool
) -> list[SearchHitKey]:
    """Return the first ``limit`` hits after a key by scoring every match. One query."""
    statement = SQL("SELECT u.* FROM (") + _all_matches(queries) + SQL(") u")
    statement += _after_keyset(after, newest=newest)
    order = SQL(f" ORDER BY {TIME_ORDER if newest else SCORE_ORDER} LIMIT %s", (limit,))
    return fetch_hit_keys(statement + order)


def count_and_first_hits(
    queries: Sequence[StreamQuery], *, limit: int, after: SearchHitKey | None, newest: bool
) -> tuple[int, list[SearchHitKey]]:
    """Return the count of all matches and the first ``limit`` hits after a key. One query.

    The count is zero if there are no hits after the key.
    """
    statement = SQL(
        f"{SELECT_HIT_KEYS}, p.total FROM (SELECT u.* FROM (SELECT count(*) OVER () AS total,"
    )
    statement += SQL(" e.* FROM (") + _all_matches(queries) + SQL(") e) u")
    statement += _after_keyset(after, newest=newest)
    order = SQL(f" ORDER BY {TIME_ORDER if newest else SCORE_ORDER} LIMIT %s) p", (limit,))
    rows = fetch_prepared(statement + order)
    return (rows[0][-1] if rows else 0), hit_keys([row[:-1] for row in rows])


def all_hits(queries: Sequence[StreamQuery]) -> list[SearchHitKey]:
    """Return all hits, unordered. One query."""
    return fetch_hit_keys(_all_matches(queries))


def fetch_hit_keys(rows: SQL) -> list[SearchHitKey]:
    """Return the hits of a query for ``hit_columns``, in its order. One query."""
    return hit_keys(fetch_prepared(SQL(f"{SELECT_HIT_KEYS} FROM (") + rows + SQL(") p")))


def _all_matches(queries: Sequence[StreamQuery]) -> SQL:
    return union_all(
        select_matches(query, hit_columns(number, query, score_sql(query)), [query.terms.matching])
        for number, query in enumerate(queries)
    )


def _word_score(tiers: Sequence[str], weight: int) -> SQL:
    """Return the score of a word as SQL: its highest matching tier, or zero."""
    cases = SQL("CASE")
    for number, query in enumerate(tiers):
        points = weight * TERM_SCORE + len(tiers) - number - 1
        cases += SQL(f" WHEN r.terms @@ %s::tsquery THEN {points}", (query,))
    return cases + SQL(" ELSE 0 END")


def _after_keyset(after: SearchHitKey | None, *, newest: bool) -> SQL:
    if after is None:
        return SQL("")
    if newest:
        return SQL(" WHERE ") + _older(after.rank.at, _lower_score(after.score, _after_id(after)))
    return SQL(" WHERE ") + _lower_score(after.score, after_time(after))


def after_time(after: SearchHitKey) -> SQL:
    """Return a condition on hits ``u`` with the same score that come after a hit."""
    return _older(after.rank.at, _after_id(after))


def _after_id(after: SearchHitKey) -> SQL:
    ids = after.connection_id, after.stream, after.record_key
    return SQL("(u.connection_id, u.stream, u.record_key) > (%s, %s, %s)", ids)


def _lower_score(points: int, tie: SQL) -> SQL:
    """Return a condition for a lower score, or for the same score and ``tie``."""
    return SQL("(u.score < %s OR (u.score = %s AND ", (points, points)) + tie + SQL("))")


def _older(at: datetime | None, tie: SQL) -> SQL:
    """Return a condition for an earlier time, or for the same time and ``tie``. Nulls come last."""
    if at is None:
        return SQL("(u.at IS NULL AND ") + tie + SQL(")")
    older = SQL("(u.at < %s OR u.at IS NULL OR (u.at = %s AND ", (at, at))
    return older + tie + SQL("))")
