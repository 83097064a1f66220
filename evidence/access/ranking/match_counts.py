"""Count matches up to a bound, at bounded cost."""

from collections.abc import Sequence
from itertools import chain, product
from typing import Final, NamedTuple

from evidence.access.ranking.scores import CompiledQuery, StreamQuery, select_matches
from evidence.access.sql import SQL, fetch_prepared, union_all

MAX_SPLIT_TERMS: Final = 2
"""Maximum number of words to look up tier by tier; more words have too many combinations."""
SPLIT_TIERS: Final = 2
"""Number of lowest tiers of two words to look up separately; most rows match them."""


def count_matches(queries: Sequence[StreamQuery], *, max_count: int) -> int:
    """Return the number of matches, beyond ``max_count`` some larger number. One query.

    The limit is outside of the materialized matches, because it would make the planner scan the table.
    """
    if not queries:
        return 0
    every = (
        select_matches(query, SQL("1"), [part.tsquery], but_not=part.but_not)
        for query in _most_fields_first(queries)
        for part in split_matches(query.terms)
    )
    rows = SQL("WITH m AS MATERIALIZED (") + union_all(every)
    statement = rows + SQL(") SELECT count(*) FROM (SELECT 1 FROM m LIMIT %s) c", (max_count + 1,))
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
