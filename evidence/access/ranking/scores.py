"""Score and order matching records in SQL, from granted fields only: all matches, or the top k.

``top_hits`` finds the matches of frequent words without scoring each. A page usually has one or two
different scores. So it takes scores from the highest down, newest first within a score, until the page is
full. It scans the newest rows of each connection once: a score that is frequent among them fills the page.
For a rare score, the inverted index returns exactly its rows. The result is the same as if every match were
scored, and depends on visible rows only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from evidence.access.records import VisibleRecords
from evidence.access.scope import Only
from evidence.access.sql import (
    MAX_NAMED_CONNECTIONS,
    SQL,
    ConnectionGroup,
    fetch_prepared,
    fill,
    join_sql,
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


class Candidate(NamedTuple):
    """A match of the stream ``number`` and its place in the order of hits, which a cursor keeps.

    ``at`` is the time in microseconds since 1970, None if it is missing or hidden. Without
    ``is_possible``, the texts do not contain the phrases of the query.
    """

    number: int
    score: int
    at: int | None
    connection_id: str
    stream: str
    record_key: str
    is_possible: bool = True

    @property
    def time(self) -> datetime | None:
        return None if self.at is None else _EPOCH + self.at * _MICROSECOND


SortKey: TypeAlias = tuple[Any, ...]


def time_order(hit: Candidate) -> SortKey:
    """Return a sort key: newest first, then hits without a time, then by id."""
    ids = hit.connection_id, hit.stream, hit.record_key
    return (hit.at is None, -(hit.at or 0), *ids)


def best_first(hit: Candidate) -> SortKey:
    return (-hit.score, *time_order(hit))


def newest_first(hit: Candidate) -> SortKey:
    is_untimed, at, *ids = time_order(hit)
    return (is_untimed, at, -hit.score, *ids)


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
SCORE_ORDER = SQL("u.score DESC, u.at DESC NULLS LAST, u.connection_id, u.stream, u.record_key")
TIME_ORDER = SQL("u.at DESC NULLS LAST, u.score DESC, u.connection_id, u.stream, u.record_key")

FIRST_HITS: Final = """
-- The first hits after a position among some matches, and the number of all matches or null. Times are in
-- microseconds since 1970. Parts: total, matches with the columns HIT, position, order. One query.
SELECT p.number, p.score, (extract(epoch FROM p.at) * 1000000)::bigint, p.connection_id, p.stream,
    p.record_key, p.is_possible, p.total
FROM (
    SELECT u.* FROM (SELECT {total} AS total, e.* FROM ({matches}) e) u{after}
    ORDER BY {order} LIMIT {limit}
) p
"""
HIT: Final = """{number}::int AS number, {score} AS score, {at} AS at, r.connection_id, r.stream,
    r.record_key, {required} AS is_possible"""
"""The columns of a ``Candidate`` of a row ``r``; ``at`` is still a time."""

MATCHES: Final = "SELECT {columns}{rows}{tests}"
"""The visible rows of one or more connections that match."""
IN_INDEX: Final = " AND r.terms @@ {tsquery}::tsquery"
IN_ROW: Final = " AND (r.terms @@ {tsquery}::tsquery) IS TRUE"
"""The test of a match in each row, which cannot use the inverted index."""
NOT_IN_ROW: Final = " AND (r.terms @@ {tsquery}::tsquery) IS FALSE"

NEWEST_ROWS: Final = """
-- The matches among the newest rows of each connection, and the last of these rows, whether or not it matches.
-- Part: connections. One query.
SELECT p.number, p.score, (extract(epoch FROM p.at) * 1000000)::bigint, p.connection_id, p.stream,
    p.record_key, p.is_possible, p.last
FROM ({connections}) p
"""
NEWEST_OF_CONNECTION: Final = """
SELECT {hit}, r.place = {size} AS last
FROM (
    SELECT r.*, row_number() OVER (ORDER BY {order}) AS place
    FROM (SELECT r.*{rows}{before} ORDER BY {order} LIMIT {size}) r
) r
WHERE {is_match} OR r.place = {size}
"""

CONNECTIONS: Final = (
    " FROM {table} WHERE r.owner_id = {owner} AND r.connection_id = ANY({ids}){terms}"
)


def select_matches(
    query: StreamQuery, columns: SQL, tsqueries: Sequence[str], *, but_not: str | None = None
) -> SQL:
    """Return ``SELECT columns`` of the visible rows ``r`` that match all ``tsqueries``.

    ``but_not`` excludes matches of another query, tested on the rows that the others find.
    """
    test = IN_ROW if query.has_few_rows else IN_INDEX
    tests = [fill(test, tsquery=tsquery) for tsquery in tsqueries]
    if but_not is not None:
        tests.append(fill(NOT_IN_ROW, tsquery=but_not))
    return union_all(
        fill(MATCHES, columns=columns, rows=rows, tests=join_sql("", tests))
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
        yield fill(
            CONNECTIONS, table=SQL(table), owner=current_owner(), ids=ids, terms=group.condition
        )
        return
    for connection_id in ids:
        yield by_key.rows(SQL("%s", (connection_id,)), table)


def hit_columns(number: int, query: StreamQuery, score: SQL) -> SQL:
    return fill(
        HIT,
        number=number,
        score=score,
        at=SQL("r.consent_time" if query.shows_time else "NULL::timestamptz"),
        required=query.terms.required or SQL("true"),
    )


def score_sql(query: StreamQuery) -> SQL:
    """Return the score of a row as SQL over its terms."""
    terms = query.terms
    words = join_sql(" + ", map(_word_score, terms.tiers, terms.weights))
    return words if words.text else SQL("0")


def first_hits(
    queries: Sequence[StreamQuery], *, limit: int, after: Candidate | None, newest: bool
) -> list[Candidate]:
    """Return the first ``limit`` hits after a key by scoring every match. One query."""
    _, hits = _fetch_hits(
        _all_matches(queries),
        after=_after_keyset(after, newest=newest),
        order=TIME_ORDER if newest else SCORE_ORDER,
        limit=limit,
    )
    return hits


def count_and_first_hits(
    queries: Sequence[StreamQuery], *, limit: int, after: Candidate | None, newest: bool
) -> tuple[int, list[Candidate]]:
    """Return the count of all matches and the first ``limit`` hits after a key. One query.

    The count is zero if there are no hits after the key.
    """
    return _fetch_hits(
        _all_matches(queries),
        after=_after_keyset(after, newest=newest),
        order=TIME_ORDER if newest else SCORE_ORDER,
        limit=limit,
        counted=True,
    )


def _fetch_hits(
    matches: SQL, *, after: SQL, order: SQL, limit: int, counted: bool = False
) -> tuple[int, list[Candidate]]:
    """Return the number of all matches if it is ``counted``, and the hits."""
    statement = fill(
        FIRST_HITS,
        total=SQL("count(*) OVER ()" if counted else "NULL::bigint"),
        matches=matches,
        after=after,
        order=order,
        limit=limit,
    )
    rows = fetch_prepared(statement)
    return (rows[0][-1] if rows else 0), [Candidate(*row[:-1]) for row in rows]


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


def _after_keyset(after: Candidate | None, *, newest: bool) -> SQL:
    if after is None:
        return SQL("")
    if newest:
        return SQL(" WHERE ") + _older(after.time, _lower_score(after.score, _after_id(after)))
    return SQL(" WHERE ") + _lower_score(after.score, after_time(after))


def after_time(after: Candidate) -> SQL:
    """Return a condition on hits ``u`` with the same score that come after a hit."""
    return _older(after.time, _after_id(after))


def _after_id(after: Candidate) -> SQL:
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


SCAN_ROWS = 250
"""Number of newest rows of each connection to scan."""
MAX_SCAN_ROWS = 3_000
"""Maximum number of rows to scan, if the first scan shows that this fills the page."""
MAX_COMBINATIONS = 48
"""Maximum number of tier combinations of one score, because a statement names each."""
NO_MATCH = -1
"""Score of the last scanned row of a connection, if it does not match."""


@dataclass(frozen=True, slots=True)
class RecencyScan:
    """The matches among the newest rows of all connections, and the last scanned row of each."""

    hits: Sequence[Candidate]
    ends: Sequence[Candidate]

    def hits_with_score(self, points: int, after: Candidate | None) -> list[Candidate]:
        """Return the first hits of one score after a key, up to the end of the shortest scan."""
        end = min(map(time_order, self.ends), default=None)
        hits = [
            hit
            for hit in self.hits
            if hit.score == points
            and (end is None or time_order(hit) <= end)
            and (after is None or time_order(hit) > time_order(after))
        ]
        return sorted(hits, key=time_order)

    def is_complete_until(self, hit: Candidate) -> bool:
        """Return whether the scan covers every row up to the time of a hit, including that time."""
        return all(time_order(hit)[:2] < time_order(end)[:2] for end in self.ends)


def top_hits(
    queries: Sequence[StreamQuery], *, limit: int, after: Candidate | None, exceeds_count: bool
) -> list[Candidate]:
    """Return the first ``limit`` hits after a key.

    Words with a weight are in few records, which are all scored. The others have equal weights.
    """
    rare_words = [_rare_words(query.terms) for query in queries]
    if not any(rare_words):
        return TopK(queries, exceeds_count).first(limit, after)
    rare = map(_with_rare_words, queries, rare_words)
    others = map(_without_rare_words, queries, rare_words)
    hits = first_hits(list(rare), limit=limit, after=after, newest=False)
    hits += TopK(list(others), exceeds_count).first(limit, after)
    return sorted(hits, key=best_first)[:limit]


def _rare_words(terms: CompiledQuery) -> str:
    """Return a tsquery for any word with a weight, empty if there is none."""
    words = zip(terms.tiers, terms.weights, strict=True)
    return " | ".join(text for tiers, weight in words if weight > 1 for text in tiers)


def _with_rare_words(query: StreamQuery, rare: str) -> StreamQuery:
    terms = query.terms
    matching = f"({terms.matching}) & ({rare or f'!({terms.matching})'})"
    return replace(query, terms=replace(terms, matching=matching))


def _without_rare_words(query: StreamQuery, rare: str) -> StreamQuery:
    terms = query.terms
    words = [tiers for tiers, weight in zip(terms.tiers, terms.weights, strict=True) if weight == 1]
    matching = f"({terms.matching}) & !({rare})" if rare else terms.matching
    terms = replace(terms, matching=matching, tiers=tuple(words), weights=(1,) * len(words))
    return replace(query, terms=terms)


@dataclass(frozen=True)
class TopK:
    """The matches of ``queries``, whose words have equal weights, best first. If ``exceeds_count``, there are too many to count."""

    queries: Sequence[StreamQuery]
    exceeds_count: bool

    def first(self, limit: int, after: Candidate | None) -> list[Candidate]:
        """Return the first ``limit`` hits after a key."""
        hits: list[Candidate] = []
        for points, count in self._score_combinations.items():
            if after is not None and points > after.score:
                continue
            start = after if after is not None and points == after.score else None
            missing = limit - len(hits)
            scanned = self._scan(points, missing, start)
            if scanned is None and count > MAX_COMBINATIONS:
                return hits + self._score_all(points, missing, start)
            hits += self._indexed(points, missing, start) if scanned is None else scanned
            if len(hits) == limit:
                break
        return hits

    def _scan(self, points: int, limit: int, after: Candidate | None) -> list[Candidate] | None:
        """Return the first ``limit`` hits of one score, or None if the newest rows have fewer."""
        scan = (
            self._first_scan if after is None else scan_newest(self.queries, after, size=SCAN_ROWS)
        )
        hits = scan.hits_with_score(points, after)
        if len(hits) < limit and self.exceeds_count and hits:
            size = 3 * SCAN_ROWS * limit // (2 * len(hits))
            if size <= MAX_SCAN_ROWS:
                hits = scan_newest(self.queries, after, size=size).hits_with_score(points, after)
        return hits[:limit] if len(hits) >= limit else None

    def _indexed(self, points: int, limit: int, after: Candidate | None) -> list[Candidate]:
        """Return the first ``limit`` hits of one score from the inverted index. One query."""
        parts = [
            select_matches(
                query,
                hit_columns(number, query, SQL("%s::int", (points,))),
                [*tsqueries, query.terms.matching],
            )
            for number, query in enumerate(self.queries)
            if (tsqueries := exact_score_queries(query.terms.tiers, points)) is not None
        ]
        if not parts:
            return []
        start = SQL("") if after is None else SQL(" WHERE ") + after_time(after)
        order = SQL("u.at DESC NULLS LAST, u.connection_id, u.stream, u.record_key")
        _, hits = _fetch_hits(union_all(parts), after=start, order=order, limit=limit)
        return hits

    def _score_all(self, points: int, limit: int, after: Candidate | None) -> list[Candidate]:
        """Return the first hits of this score and of lower ones, by scoring every match."""
        start = after or Candidate(
            -1, points + 1, None, AFTER_EVERY_ID, AFTER_EVERY_ID, AFTER_EVERY_ID
        )
        return first_hits(self.queries, limit=limit, after=start, newest=False)

    @cached_property
    def _score_combinations(self) -> Mapping[int, int]:
        """Possible score -> maximum number of tier combinations, highest score first."""
        combinations: dict[int, int] = {}
        for query in self.queries:
            for points, count in score_combinations(query.terms.tiers).items():
                combinations[points] = max(count, combinations.get(points, 0))
        return dict(sorted(combinations.items(), reverse=True))

    @cached_property
    def _first_scan(self) -> RecencyScan:
        return scan_newest(self.queries, None, size=SCAN_ROWS)


AFTER_EVERY_ID = "\U0010ffff"
"""Sorts after every id."""


def score_combinations(words: Sequence[Sequence[str]]) -> Mapping[int, int]:
    """Return score -> number of tier combinations of the words that add up to it."""
    counts = {0: 1}
    for tiers in words:
        sums: dict[int, int] = {}
        for points, _ in _tier_scores(tiers):
            for score, count in counts.items():
                sums[score + points] = sums.get(score + points, 0) + count
        counts = sums
    return counts


def exact_score_queries(words: Sequence[Sequence[str]], points: int) -> Sequence[str] | None:
    """Return the tsqueries of rows whose words add up to exactly this score, None if no row can.

    The list has one tsquery, or is empty if there are no words.
    """
    combinations = list(_combinations(words, points))
    if not combinations:
        return None
    return (
        [" | ".join(f"({' & '.join(combination)})" for combination in combinations)]
        if words
        else []
    )


def _combinations(words: Sequence[Sequence[str]], points: int) -> Iterator[tuple[str, ...]]:
    if not words:
        if points == 0:
            yield ()
        return
    first_word, *others = words
    max_rest = sum(TERM_SCORE + len(tiers) - 1 for tiers in others)
    for word_points, text in _tier_scores(first_word):
        if 0 <= points - word_points <= max_rest:
            for rest in _combinations(others, points - word_points):
                yield (text, *rest)


def _tier_scores(tiers: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the score of a word at each tier, with a tsquery for that tier and no higher one.

    The last pair is zero, with a tsquery for the absence of the word.
    """
    for number, text in enumerate(tiers):
        higher = " | ".join(tiers[:number])
        yield (
            TERM_SCORE + len(tiers) - number - 1,
            f"({text} & !({higher}))" if higher else f"({text})",
        )
    yield 0, f"!({' | '.join(tiers)})"


def scan_newest(
    queries: Sequence[StreamQuery], after: Candidate | None, *, size: int
) -> RecencyScan:
    """Scan the newest rows by the index on time, or on keys if the time is hidden. One query."""
    parts = {
        (number, connection_id): _newest_rows(number, query, group, connection_id, after, size)
        for number, query in enumerate(queries)
        for group in query.visible.groups
        for connection_id in group.connection_ids
    }
    hits, stopped = [], {}
    statement = fill(NEWEST_ROWS, connections=union_all(parts.values()))
    for *columns, is_last in fetch_prepared(statement):
        hit = Candidate(*columns)
        if hit.score != NO_MATCH:
            hits.append(hit)
        if is_last:
            stopped[hit.number, hit.connection_id] = hit
    # Rows without a time come last and are not scanned.
    untimed = [
        Candidate(number, NO_MATCH, None, "", "", "")
        for number, connection_id in parts
        if (number, connection_id) not in stopped and queries[number].shows_time
    ]
    return RecencyScan(hits, [*stopped.values(), *untimed])


def _newest_rows(
    number: int,
    query: StreamQuery,
    group: ConnectionGroup,
    connection_id: str,
    after: Candidate | None,
    size: int,
) -> SQL:
    before, order = SQL(""), SQL("r.record_key")
    if query.shows_time:
        order = SQL("r.consent_time DESC, r.record_key")
        before = SQL(" AND r.consent_time IS NOT NULL")
        if after is not None and after.at is not None:
            before += SQL(" AND r.consent_time <= %s", (after.time,))
    elif after is not None and after.at is None:
        ids = after.connection_id, after.stream, after.record_key
        before = SQL(" AND (r.connection_id, r.stream, r.record_key) > (%s, %s, %s)", ids)
    is_match = SQL("r.terms @@ %s::tsquery", (query.terms.matching,))
    score = SQL("CASE WHEN ") + is_match + SQL(" THEN ") + score_sql(query)
    return fill(
        NEWEST_OF_CONNECTION,
        hit=hit_columns(number, query, score + SQL(f" ELSE {NO_MATCH} END")),
        rows=group.rows(SQL("%s", (connection_id,)), TIME_INDEXED_TEXT),
        before=before,
        order=order,
        size=size,
        is_match=is_match,
    )
