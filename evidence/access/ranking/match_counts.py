"""Count matches up to a bound, at bounded cost, and cache large counts until a connection changes."""

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Final, NamedTuple

from evidence.access.ranking.scores import (
    TIME_INDEXED_TEXT,
    CompiledQuery,
    StreamQuery,
    select_matches,
)
from evidence.access.sql import SQL, fetch_prepared, union_all
from evidence.models.owners import current_owner

CACHE_SIZE: Final = 256
MIN_CACHED_COUNT: Final = 1_000
"""Smaller counts are as fast to make as to look up."""
CACHE_SECONDS: Final = 60.0
# The row version (xmin) distinguishes databases that gave one change number to different changes.
CHANGE_NUMBERS: Final = (
    "(SELECT string_agg(k.connection_id || ' ' || k.change_seq || ' ' || k.xmin, ' ' ORDER BY k.connection_id)"
    " FROM evidence_connection k WHERE k.owner_id = %s AND k.connection_id = ANY(%s))"
)


@dataclass(frozen=True, slots=True)
class _CachedCount:
    change_numbers: str
    count: int
    until: float


_cache: OrderedDict[Hashable, _CachedCount] = OrderedDict()
_lock = threading.Lock()


def change_numbers(queries: Sequence[StreamQuery]) -> SQL:
    """Return the latest change number of every connection as one SQL expression."""
    ids = {id_ for query in queries for group in query.visible.groups
           for id_ in group.connection_ids}  # fmt: skip
    return SQL(CHANGE_NUMBERS, (current_owner(), sorted(ids)))


def cached_count(queries: Sequence[StreamQuery], *, max_count: int) -> int | None:
    """Return the cached count if no connection has changed. At max_count one query."""
    with _lock:
        cached = _cache.get(_key(queries, max_count))
    if cached is None or cached.until < time.monotonic():
        return None
    current = fetch_prepared(SQL("SELECT ") + change_numbers(queries))[0][0]
    return cached.count if cached.change_numbers == current else None


def cache_count(queries: Sequence[StreamQuery], *, max_count: int, seen: str, count: int) -> None:
    """Cache a count that was made when the change numbers were ``seen``, or later."""
    if count < MIN_CACHED_COUNT:
        return
    with _lock:
        _cache[_key(queries, max_count)] = _CachedCount(
            seen, count, time.monotonic() + CACHE_SECONDS
        )
        while len(_cache) > CACHE_SIZE:
            _cache.popitem(last=False)


def _key(queries: Sequence[StreamQuery], max_count: int) -> Hashable:
    """Return everything that determines which rows are counted."""
    return (
        current_owner(),
        max_count,
        tuple(
            (
                query.terms.matching,
                query.visible.source.declaration_pk,
                tuple(group.connection_ids),
                group.condition.text,
                repr(group.condition.values),
            )
            for query in queries
            for group in query.visible.groups
        ),
    )


SAMPLE_ROWS: Final = 16
"""Number of newest rows of each connection to estimate the share of matching rows from."""
COMMON_TERM_RATIO: Final = "0.4"
"""From this share of matches, a sequential read reaches the bound sooner than the inverted index."""
SEQUENTIAL_READ_FACTOR: Final = 4
"""Maximum number of rows to read sequentially, as a multiple of the bound."""
MAX_SPLIT_TERMS: Final = 2
"""Maximum number of words to look up tier by tier; more words have too many combinations."""
SPLIT_TIERS: Final = 2
"""Number of lowest tiers of two words to look up separately; most rows match them."""


def count_matches(queries: Sequence[StreamQuery], *, max_count: int) -> int:
    """Return the number of matches, beyond ``max_count`` some larger number.

    One query, or up to three for words that are in most rows.
    """
    if not queries:
        return 0
    count = cached_count(queries, max_count=max_count)
    if count is None:
        count, seen = _count(queries, max_count)
        cache_count(queries, max_count=max_count, seen=seen, count=count)
    return count


def _count(queries: Sequence[StreamQuery], max_count: int) -> tuple[int, str]:
    """Return the count, and the change numbers when it began."""
    # CASE skips the count by index unless the terms are rare.
    statement = SQL("WITH s AS MATERIALIZED (") + _sample(queries)
    statement += SQL("), t AS MATERIALIZED (SELECT count(*) < %s", (SAMPLE_ROWS,))
    statement += SQL(f" OR avg(s.hit) < {COMMON_TERM_RATIO} AS rare FROM s) SELECT t.rare, CASE")
    statement += SQL(" WHEN t.rare THEN ") + _indexed(queries, max_count)
    statement += SQL(" END, ") + change_numbers(queries) + SQL(" FROM t")
    is_rare, count, seen = fetch_prepared(statement)[0]
    if count is None and not is_rare:
        count = _count_sequentially(queries, max_count)
        count = count if count > max_count else None
    if count is not None:
        return int(count), seen
    statement = SQL("SELECT ") + _indexed(queries, max_count)
    return int(fetch_prepared(statement)[0][0]), seen


def _indexed(queries: Sequence[StreamQuery], max_count: int) -> SQL:
    """Return a count by the inverted index.

    The limit is outside of the materialized matches, because it would make the planner scan the table.
    """
    every = (
        select_matches(query, SQL("1"), [part.tsquery], but_not=part.but_not)
        for query in _most_fields_first(queries)
        for part in split_matches(query.terms)
    )
    rows = SQL("(WITH m AS MATERIALIZED (") + union_all(every)
    return rows + SQL(") SELECT count(*) FROM (SELECT 1 FROM m LIMIT %s) c)", (max_count + 1,))


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


def _count_sequentially(queries: Sequence[StreamQuery], max_count: int) -> int:
    """Return the number of matches among the newest rows of each connection."""
    rows = (
        SQL("SELECT 1 FROM (") + part + SQL(" WHERE w.hit")
        for part in _newest(_most_fields_first(queries), SEQUENTIAL_READ_FACTOR * max_count)
    )
    statement = SQL("SELECT count(*) FROM (SELECT 1 FROM (") + union_all(rows)
    statement += SQL(") m LIMIT %s) c", (max_count + 1,))
    return int(fetch_prepared(statement)[0][0])


def _sample(queries: Sequence[StreamQuery]) -> SQL:
    rows = (SQL("SELECT w.hit::int FROM (") + part for part in _newest(queries, SAMPLE_ROWS))
    return union_all(rows)


def _newest(queries: Sequence[StreamQuery], size: int) -> list[SQL]:
    """Return, for each connection, its newest rows ``w`` with whether they match."""
    return [
        SQL("SELECT (r.terms @@ %s::tsquery) AS hit", (query.terms.matching,))
        + group.rows(SQL("%s", (connection_id,)), TIME_INDEXED_TEXT)
        + SQL(" ORDER BY r.consent_time DESC LIMIT %s) w", (size,))
        for query in queries
        for group in query.visible.groups
        for connection_id in group.connection_ids
    ]
