"""Find the top-k matches of frequent terms without scoring every match.

A page usually contains one or two different scores. So this module takes scores from the highest
down, newest first within a score, until the page is full. It scans the newest rows of each connection
once: a score that is frequent among them fills the page. For a rare score, the inverted index returns
exactly the rows of that score.

The result is the same as if every match were scored, and depends on visible rows only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from evidence.access.ranking.scores import (
    SELECT_HIT_KEYS,
    TERM_SCORE,
    TIME_INDEXED_TEXT,
    CompiledQuery,
    SearchHitKey,
    StreamQuery,
    after_time,
    best_first,
    fetch_hit_keys,
    first_hits,
    hit_columns,
    score_sql,
    select_matches,
    time_order,
)
from evidence.access.sql import SQL, ConnectionGroup, fetch_prepared, union_all

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

    hits: Sequence[SearchHitKey]
    ends: Sequence[SearchHitKey]

    def hits_with_score(self, points: int, after: SearchHitKey | None) -> list[SearchHitKey]:
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

    def is_complete_until(self, hit: SearchHitKey) -> bool:
        """Return whether the scan covers every row up to the time of a hit, including that time."""
        return all(time_order(hit)[:2] < time_order(end)[:2] for end in self.ends)


def top_hits(
    queries: Sequence[StreamQuery], *, limit: int, after: SearchHitKey | None, exceeds_count: bool
) -> list[SearchHitKey]:
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

    def first(self, limit: int, after: SearchHitKey | None) -> list[SearchHitKey]:
        """Return the first ``limit`` hits after a key."""
        hits: list[SearchHitKey] = []
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

    def _scan(
        self, points: int, limit: int, after: SearchHitKey | None
    ) -> list[SearchHitKey] | None:
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

    def _indexed(self, points: int, limit: int, after: SearchHitKey | None) -> list[SearchHitKey]:
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
        statement = SQL("SELECT u.* FROM (") + union_all(parts) + SQL(") u")
        if after is not None:
            statement += SQL(" WHERE ") + after_time(after)
        order = "u.at DESC NULLS LAST, u.connection_id, u.stream, u.record_key"
        statement += SQL(f" ORDER BY {order} LIMIT %s", (limit,))
        return fetch_hit_keys(statement)

    def _score_all(self, points: int, limit: int, after: SearchHitKey | None) -> list[SearchHitKey]:
        """Return the first hits of this score and of lower ones, by scoring every match."""
        start = after or SearchHitKey(
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
    queries: Sequence[StreamQuery], after: SearchHitKey | None, *, size: int
) -> RecencyScan:
    """Scan the newest rows by the index on time, or on keys if the time is hidden. One query."""
    parts = {
        (number, connection_id): _newest_rows(number, query, group, connection_id, after, size)
        for number, query in enumerate(queries)
        for group in query.visible.groups
        for connection_id in group.connection_ids
    }
    statement = SQL(f"{SELECT_HIT_KEYS}, p.last FROM (") + union_all(parts.values())
    hits, stopped = [], {}
    for *columns, is_last in fetch_prepared(statement + SQL(") p")):
        hit = SearchHitKey(*columns)
        if hit.score != NO_MATCH:
            hits.append(hit)
        if is_last:
            stopped[hit.number, hit.connection_id] = hit
    # Rows without a time come last and are not scanned.
    untimed = [
        SearchHitKey(number, NO_MATCH, None, "", "", "")
        for number, connection_id in parts
        if (number, connection_id) not in stopped and queries[number].shows_time
    ]
    return RecencyScan(hits, [*stopped.values(), *untimed])


def _newest_rows(
    number: int,
    query: StreamQuery,
    group: ConnectionGroup,
    connection_id: str,
    after: SearchHitKey | None,
    size: int,
) -> SQL:
    rows = SQL("SELECT r.*") + group.rows(SQL("%s", (connection_id,)), TIME_INDEXED_TEXT)
    if query.shows_time:
        rows += SQL(" AND r.consent_time IS NOT NULL")
        if after is not None and after.at is not None:
            rows += SQL(" AND r.consent_time <= %s", (after.rank.at,))
        order = "r.consent_time DESC, r.record_key"
    else:
        if after is not None and after.at is None:
            ids = after.connection_id, after.stream, after.record_key
            rows += SQL(" AND (r.connection_id, r.stream, r.record_key) > (%s, %s, %s)", ids)
        order = "r.record_key"
    rows += SQL(f" ORDER BY {order} LIMIT %s", (size,))
    matches = SQL("r.terms @@ %s::tsquery", (query.terms.matching,))
    points = SQL("CASE WHEN ") + matches + SQL(" THEN ") + score_sql(query)
    points += SQL(f" ELSE {NO_MATCH} END")
    last = SQL("r.place = %s", (size,))
    statement = SQL("SELECT ") + hit_columns(number, query, points) + SQL(", ") + last
    numbered = f"SELECT r.*, row_number() OVER (ORDER BY {order}) AS place FROM ("
    statement += SQL(f" AS last FROM ({numbered}") + rows
    return statement + SQL(") r) r WHERE ") + matches + SQL(" OR ") + last
