"""Count matches, return them ranked, and find which prefixes occur, over visible records.

If few rows match, or if scores have too many tier combinations, every match is scored. Otherwise
``evidence.access.ranking.scores`` finds the same hits without reading all matches. The strategy changes
the cost of an answer, never its content.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, product
from typing import Final, NamedTuple, Protocol

from evidence.access.ranking.scores import (
    TIME_INDEXED_TEXT,
    Candidate,
    CompiledQuery,
    StreamQuery,
    count_and_first_hits,
    first_hits,
    newest_first,
    rows_of_connections,
    scan_newest,
    select_matches,
    top_hits,
)
from evidence.access.records import ALL_COLUMNS, VisibleRecord, VisibleRecords
from evidence.access.sql import SQL, fetch_prepared, fill, union_all, value_table

MAX_SPLIT_TERMS: Final = 2
"""Maximum number of words to look up tier by tier; more words have too many combinations."""
SPLIT_TIERS: Final = 2
"""Number of lowest tiers of two words to look up separately; most rows match them."""


COUNT_MATCHES: Final = """
-- The number of matches up to a bound. The bound is outside of the materialized matches, because it would make
-- the planner scan the table. Part: matches. One query.
WITH m AS MATERIALIZED ({matches})
SELECT count(*) FROM (SELECT 1 FROM m LIMIT {most}) c
"""


def count_matches(queries: Sequence[StreamQuery], *, max_count: int) -> int:
    """Return the number of matches, beyond ``max_count`` some larger number. One query."""
    if not queries:
        return 0
    every = (
        select_matches(query, SQL("1"), [part.tsquery], but_not=part.but_not)
        for query in _most_fields_first(queries)
        for part in split_matches(query.terms)
    )
    statement = fill(COUNT_MATCHES, matches=union_all(every), most=max_count + 1)
    return int(fetch_prepared(statement)[0][0])


def _most_fields_first(queries: Sequence[StreamQuery]) -> list[StreamQuery]:
    """Return the queries with the most searched fields first: they reach the bound soonest."""
    return sorted(queries, key=lambda query: -len(query.terms.matching))


class MatchPart(NamedTuple):
    """Some of the matches of a query: those of ``tsquery`` but not of ``but_not``."""

    tsquery: str
    but_not: str | None = None


def split_matches(terms: CompiledQuery) -> list[MatchPart]:
    """Split the matches of a query into disjoint parts by the lowest tier of each word.

    If the first parts reach the bound, PostgreSQL skips the others, and it looks a few lexemes up
    much faster than all of them together.
    """
    words = [tiers[::-1] for tiers in terms.tiers]
    if len(words) > MAX_SPLIT_TERMS or not _requires_each_word(terms):
        return [MatchPart(terms.matching)]
    if len(words) == 1:
        return [MatchPart(_at(words[0], tier)) for tier in range(len(words[0]))]
    low = [tiers[:SPLIT_TIERS] for tiers in words]
    combinations = sorted(product(*(range(len(tiers)) for tiers in low)), key=sum)
    low_tiers = " & ".join(f"({' | '.join(tiers)})" for tiers in low)
    return [
        *(_part(words, combination) for combination in combinations),
        MatchPart(terms.matching, low_tiers),
    ]


def _at(tiers: Sequence[str], tier: int) -> str:
    """Return a tsquery for a word at this tier and at none before."""
    return f"{tiers[tier]} & !({' | '.join(tiers[:tier])})" if tier else tiers[tier]


def _part(words: Sequence[Sequence[str]], combination: Sequence[int]) -> MatchPart:
    lower = [text for tiers, tier in zip(words, combination, strict=True) for text in tiers[:tier]]
    tsquery = " & ".join(tiers[tier] for tiers, tier in zip(words, combination, strict=True))
    return MatchPart(tsquery, " | ".join(lower) or None)


def _requires_each_word(terms: CompiledQuery) -> bool:
    """Return whether a match only requires every word, at any tier."""
    alternatives = terms.matching.strip("()").split(" & ")
    words = [sorted(chain.from_iterable(map(_lexemes, tiers))) for tiers in terms.tiers]
    return [sorted(_lexemes(alternative)) for alternative in alternatives] == words


def _lexemes(alternatives: str) -> list[str]:
    return alternatives.strip("()").split(" | ")


class HitLocation(Protocol):
    """The location of a hit: a record of the stream ``number``."""

    @property
    def number(self) -> int: ...
    @property
    def connection_id(self) -> str: ...
    @property
    def record_key(self) -> str: ...


RECORDS_OF_HITS: Final = """
SELECT {number}::int AS number, {columns} FROM {keys}{record}
"""
"""The visible records of some hits of one stream."""


def load_records(
    streams: Sequence[VisibleRecords], locations: Sequence[HitLocation]
) -> list[VisibleRecord | None]:
    """Return the record of each location, None if it is not visible any more. One query."""
    branches = []
    for number, visible in enumerate(streams):
        for group in visible.groups:
            keys = [
                (each.connection_id, each.record_key)
                for each in locations
                if each.number == number and each.connection_id in group.connection_ids
            ]
            if keys:
                branches.append(
                    fill(
                        RECORDS_OF_HITS,
                        number=number,
                        columns=ALL_COLUMNS,
                        keys=value_table("n", {"id": "text", "key": "text"}, keys),
                        record=group.join_row(SQL("n.id"), "n.key"),
                    )
                )
    rows = fetch_prepared(union_all(branches)) if branches else ()
    found = {(number, *row[:2]): row for number, *row in rows}
    places = [(each.number, each.connection_id, each.record_key) for each in locations]
    return [
        streams[place[0]].project(tuple(found[place])) if place in found else None
        for place in places
    ]


SCORE_ALL_MAX = 1_500
"""Up to this many matches are scored and sorted by the database."""
RECENCY_SCAN_SIZE = 250
"""Number of newest rows of each connection to scan first."""
MAX_RECENCY_SCAN_SIZE = 16_000


@dataclass(frozen=True, slots=True)
class Match:
    """A record with its position in the order of hits."""

    visible: VisibleRecords
    record: VisibleRecord
    candidate: Candidate


class Matches:
    """All matches of a query, best first or newest first, counted up to ``counted_to``.

    The cheapest strategy finds them.
    """

    def __init__(
        self, queries: Sequence[StreamQuery], *, counted_to: int, newest: bool = False
    ) -> None:
        self._given = queries
        self._counted_to = counted_to
        self._newest_first = newest
        self._count: int | None = None

    @cached_property
    def _queries(self) -> list[StreamQuery]:
        return mark_few_visible(self._given)

    @property
    def count(self) -> int:
        """The number of matches, exact up to ``counted_to``; beyond it some larger number."""
        if self._count is None:
            self._count = count_matches(self._queries, max_count=self._counted_to)
        return self._count

    def page(self, *, limit: int, after: Candidate | None = None) -> list[Match]:
        """Return the next ``limit`` matches with their records.

        Three queries if there are few matches, one of which counts; else up to one per score.
        """
        return self.load(self.hits(limit=limit, after=after))

    def hits(self, *, limit: int, after: Candidate | None) -> list[Candidate]:
        """Return the next ``limit`` matches without their records."""
        queries, newest = self._queries, self._newest_first
        if queries and all(query.has_few_rows for query in queries):
            count, hits = count_and_first_hits(queries, limit=limit, after=after, newest=newest)
            self._count = count or self._count
            return hits
        if not self.count:
            return []
        # A page of all matches has every score, so each score alone would find nothing sooner.
        if self.count > SCORE_ALL_MAX and not newest and self.count >= limit:
            exceeds_count = self.count > self._counted_to
            return top_hits(queries, limit=limit, after=after, exceeds_count=exceeds_count)
        if self.count > SCORE_ALL_MAX:
            hits_by_time = self._scan_newest(limit, after)
            if hits_by_time is not None:
                return hits_by_time
        return first_hits(queries, limit=limit, after=after, newest=newest)

    def load(self, hits: Sequence[Candidate]) -> list[Match]:
        """Return the hits with their records, which are checked for visibility again. One query."""
        streams = [query.visible for query in self._given]
        records = load_records(streams, hits)
        return [
            Match(streams[hit.number], record, hit)
            for hit, record in zip(hits, records, strict=True)
            if record is not None
        ]

    def _scan_newest(self, limit: int, after: Candidate | None) -> list[Candidate] | None:
        """Return the newest matches by the index on time, or None if too many rows must be scanned."""
        if not all(query.shows_time for query in self._queries):
            return None
        connections = sum(
            len(group.connection_ids) for query in self._queries for group in query.visible.groups
        )
        size = RECENCY_SCAN_SIZE
        while size <= MAX_RECENCY_SCAN_SIZE:
            if size * connections > self.count and self.count <= self._counted_to:
                return None  # All matches are fewer rows.
            scan = scan_newest(self._queries, after, size=size)
            hits = sorted(scan.hits, key=newest_first)
            if after is not None:
                hits = [hit for hit in hits if newest_first(hit) > newest_first(after)]
            if len(hits) >= limit and scan.is_complete_until(hits[limit - 1]):
                return hits[:limit]
            complete = sum(map(scan.is_complete_until, hits))
            size = size * max(4, min(16, 3 * limit // max(complete, 1))) // 2
        return None


FEW_VISIBLE_ROWS: Final = 10_000
"""Up to this many visible rows, test each row for a match."""
COUNT_FEW: Final = """
SELECT {number}::int, count(*) FROM (SELECT 1 FROM ({rows}) r LIMIT {most}) c
"""
"""The number of visible rows of one stream, up to a bound."""


def mark_few_visible(queries: Sequence[StreamQuery]) -> list[StreamQuery]:
    """Return the queries, with ``has_few_rows`` set if their grants show only few rows.

    One query, or none if no grant restricts times or records.
    """
    restricted = [number for number, query in enumerate(queries) if query.is_restricted]
    if not restricted:
        return list(queries)
    visible = (
        fill(
            COUNT_FEW,
            number=number,
            rows=queries[number].visible.select(SQL("1"), source=TIME_INDEXED_TEXT),
            most=SQL(f"{FEW_VISIBLE_ROWS + 1}"),
        )
        for number in restricted
    )
    few = {
        number for number, count in fetch_prepared(union_all(visible)) if count <= FEW_VISIBLE_ROWS
    }
    return [
        replace(query, has_few_rows=query.has_few_rows or number in few)
        for number, query in enumerate(queries)
    ]


COMMON_STARTS: Final = """
-- What the most common lexemes of all search texts begin with: owner's code, field code and tier.
-- No parameters.
SELECT DISTINCT substring(lexeme FROM '^[a-z0-9_]{3}[a-z]+[0-9]')
FROM pg_stats, unnest(most_common_elems::text::text[]) AS e(lexeme)
WHERE schemaname = current_schema AND tablename LIKE 'evidence_searchtext%' AND attname = 'terms'
"""


ROWS_THAT_MATCH: Final = """
(WITH m AS MATERIALIZED (SELECT{rows} AND r.terms @@ {tsquery}) SELECT 1 FROM m)
"""
"""Matches of one connection. A limit inside would make the planner scan the table."""
OCCURRING_PREFIXES: Final = """
SELECT (q.at - 1)::int, NULL
FROM unnest({prefixes}::text[]) WITH ORDINALITY AS q(prefix, at)
CROSS JOIN LATERAL (SELECT 1 FROM ({matches}) m LIMIT 1) m
"""
"""The prefixes that any row has, one after the other, because the first match of each ends its lookups."""
OCCURRING_STARTS: Final = """
SELECT NULL::int, q.start
FROM unnest({starts}::text[]) AS q(start)
CROSS JOIN LATERAL (SELECT 1 FROM ({matches}) m LIMIT 1) m
"""
"""The starts of lexemes that any row of one connection has."""


@dataclass(frozen=True, slots=True)
class CodedStream:
    """One stream with the field code and tier that begin the lexemes of its granted fields."""

    visible: VisibleRecords
    starts: tuple[str, ...]

    def matches(self, tsquery: SQL) -> list[SQL]:
        """Return one subquery per connection for the rows that match."""
        return [
            fill(ROWS_THAT_MATCH, rows=rows, tsquery=tsquery)
            for group in self.visible.groups
            for rows in rows_of_connections(group, has_few_rows=False)
        ]


def occurring_prefixes(streams: Sequence[CodedStream], prefixes: Sequence[str]) -> Sequence[str]:
    """Return the prefixes that any visible record has; all of them for a grant of few records.

    One query, and one more for a grant that restricts times or records.
    """
    queries = [StreamQuery(stream.visible, CompiledQuery("", ())) for stream in streams]
    # Few records are read one by one, since the inverted index would also read hidden ones.
    if any(query.has_few_rows for query in mark_few_visible(queries)):
        return prefixes
    every = {start for stream in streams for start in stream.starts}
    known = _known_starts(current_hour())
    while True:
        # A start that no record has is looked up once, and not with each prefix. A common start must
        # not be looked up alone, because that would read most of the index.
        found, others = _find(streams, prefixes, known or every)
        if not others:
            return [prefixes[at] for at in sorted(found)]
        known |= others


def _find(
    streams: Sequence[CodedStream], prefixes: Sequence[str], starts: Collection[str]
) -> tuple[set[int], set[str]]:
    """Return the positions of the prefixes that occur after these starts, and all other starts
    that occur. One query."""
    known, parts = [], []
    for stream in streams:
        template = " | ".join(f"'{start}?':*" for start in stream.starts if start in starts)
        if template:
            known += stream.matches(SQL("replace(%s, '?', q.prefix)::tsquery", (template,)))
        rest = [f"'{start}':*" for start in stream.starts if start not in starts]
        if rest:
            parts += [
                fill(OCCURRING_STARTS, starts=rest, matches=rows)
                for rows in stream.matches(SQL("q.start::tsquery"))
            ]
    if known:
        parts.append(fill(OCCURRING_PREFIXES, prefixes=list(prefixes), matches=union_all(known)))
    found = fetch_prepared(union_all(parts)) if parts else ()
    return (
        {at for at, _ in found if at is not None},
        {start.strip("':*") for _, start in found if start is not None},
    )


def current_hour() -> int:
    """Return a number that changes each hour, after which the statistics are read again."""
    return int(time.monotonic() // 3_600)


@lru_cache(maxsize=1)
def _known_starts(_hour: int) -> set[str]:
    """Return the starts of the most common lexemes, for the caller to extend."""
    return {start for (start,) in fetch_prepared(SQL(COMMON_STARTS))}
