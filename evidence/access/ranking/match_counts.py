"""How many rows match, up to a bound, at a cost that is bounded as well."""

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Final, NamedTuple

from evidence.access.ranking.scores import IN_TIME, Branch, Terms, matching
from evidence.access.scope import Only
from evidence.access.sql import Fragment, fetched_by_one_plan, joined

KEPT: Final = 256
LARGE: Final = 1_000
"""Smaller counts are made as fast as they could be looked up."""
SECONDS: Final = 60.0
HEADS: Final = (
    "(SELECT string_agg(k.connection_id || ' ' || k.change_seq, ' ' ORDER BY k.connection_id)"
    " FROM evidence_connection k WHERE k.connection_id = ANY(%s))"
)


@dataclass(frozen=True, slots=True)
class _Known:
    heads: str
    count: int
    until: float


_known: OrderedDict[Hashable, _Known] = OrderedDict()
_lock = threading.Lock()


def heads(branches: Sequence[Branch]) -> Fragment:
    """The latest change of every connection, as an expression."""
    ids = {each for branch in branches for group in branch.visible.groups
           for each in group.connection_ids}  # fmt: skip
    return Fragment(HEADS, (sorted(ids),))


def remembered(branches: Sequence[Branch], *, most: int) -> int | None:
    """The count, where it is known and still holds; one query to see whether it does, if any."""
    with _lock:
        known = _known.get(_key(branches, most))
    if known is None or known.until < time.monotonic():
        return None
    now = fetched_by_one_plan(Fragment("SELECT ") + heads(branches))[0][0]
    return known.count if known.heads == now else None


def remember(branches: Sequence[Branch], *, most: int, seen: str, count: int) -> None:
    """Keep a count that was made when the heads were as ``seen``, or later."""
    if count < LARGE:
        return
    with _lock:
        _known[_key(branches, most)] = _Known(seen, count, time.monotonic() + SECONDS)
        while len(_known) > KEPT:
            _known.popitem(last=False)


def _key(branches: Sequence[Branch], most: int) -> Hashable:
    """Everything that says which rows are counted."""
    return most, tuple(
        (
            branch.terms.matching,
            branch.visible.source.declaration_pk,
            tuple(group.connection_ids),
            group.condition.text,
            repr(group.condition.values),
        )
        for branch in branches
        for group in branch.visible.groups
    )


SAMPLED: Final = 16
"""So many of the newest rows of each connection tell whether most rows match."""
MOST: Final = "0.4"
"""From this share on, rows that are read in turn prove the bound sooner than the inverted index."""
READ_IN_TURN: Final = 4
"""So many times the bound are read at most."""
WORDS_APART: Final = 2
"""Up to so many words are looked up tier by tier; the ways to combine those of more are too many."""
TIERS_APART: Final = 2
"""Of two words so many of the lowest tiers are, which most rows meet; a statement with all is long."""
NARROW: Final = 10_000
"""So many visible rows a connection are all asked whether they match."""


def counted(branches: Sequence[Branch], *, most: int) -> int:
    """How many rows match, up to ``most`` + 1; one query, or up to three for words that are in most
    rows."""
    if not branches:
        return 0
    count = remembered(branches, most=most)
    if count is None:
        count, seen = _counted(branches, most)
        remember(branches, most=most, seen=seen, count=count)
    return count


def _counted(branches: Sequence[Branch], most: int) -> tuple[int, str]:
    """The count, and the heads when it was begun."""
    # A rest that is not asked for is not worked out either.
    statement = Fragment("WITH s AS MATERIALIZED (") + _sample(branches)
    statement += Fragment("), t AS MATERIALIZED (SELECT count(*) < %s", (SAMPLED,))
    statement += Fragment(
        f" OR avg(s.hit) < {MOST} AS rare FROM s) SELECT t.rare, CASE WHEN t.rare"
    )
    statement += Fragment(" THEN ") + _indexed(branches, most) + Fragment(" ELSE 0 END, ")
    statement += heads(branches) + Fragment(" FROM t")
    was_rare, count, seen = fetched_by_one_plan(statement)[0]
    if was_rare:
        return int(count), seen
    count = _in_turn(branches, most)
    if count > most:
        return count, seen
    statement = Fragment("SELECT ") + _indexed(branches, most)
    return int(fetched_by_one_plan(statement)[0][0]), seen


def _indexed(branches: Sequence[Branch], most: int) -> Fragment:
    """By the inverted index. Counted outside of what is bounded: for a few rows the planner would
    read a whole table in the hope of meeting them soon."""
    every = (
        matching(each, Fragment("1"), [part.asked], but_not=part.but_not)
        for each in _richest_first(branches)
        for part in parts(each.terms)
    )
    rows = Fragment("(WITH m AS MATERIALIZED (") + joined(" UNION ALL ", every)
    return rows + Fragment(") SELECT count(*) FROM (SELECT FROM m LIMIT %s) c)", (most + 1,))


def _richest_first(branches: Sequence[Branch]) -> list[Branch]:
    """Those with the most searched fields first: they hold the most text, and so prove the bound."""
    return sorted(branches, key=lambda each: -len(each.terms.matching))


class Part(NamedTuple):
    """Some of the matches of a query: those of one tsquery but not of another."""

    asked: str
    but_not: str | None = None


def parts(terms: Terms) -> list[Part]:
    """Parts of which each match is in exactly one: its words stand at some tiers and at none below.
    When the first parts prove the bound, the others need not be looked up, and a few lexemes at a
    time are looked up much faster than all of them together."""
    words = [tiers[::-1] for tiers in terms.tiers]
    if len(words) > WORDS_APART or not _asks_for_each_word(terms):
        return [Part(terms.matching)]
    if len(words) == 1:
        return [Part(_at(words[0], tier)) for tier in range(len(words[0]))]
    low = [tiers[:TIERS_APART] for tiers in words]
    ways = sorted(product(*(range(len(tiers)) for tiers in low)), key=sum)
    said = " & ".join(f"({' | '.join(tiers)})" for tiers in low)
    return [*(_part(words, way) for way in ways), Part(terms.matching, said)]


def _at(tiers: Sequence[str], tier: int) -> str:
    """The rows in which a word stands at this tier and at none before."""
    return f"{tiers[tier]} & !({' | '.join(tiers[:tier])})" if tier else tiers[tier]


def _part(words: Sequence[Sequence[str]], way: Sequence[int]) -> Part:
    lower = [text for tiers, tier in zip(words, way, strict=True) for text in tiers[:tier]]
    asked = " & ".join(tiers[tier] for tiers, tier in zip(words, way, strict=True))
    return Part(asked, " | ".join(lower) or None)


def _asks_for_each_word(terms: Terms) -> bool:
    """Whether matching is just this: every word is there, at whatever tier."""
    asked = terms.matching.strip("()").split(" & ")
    words = [sorted(chain.from_iterable(map(_lexemes, tiers))) for tiers in terms.tiers]
    return [sorted(_lexemes(each)) for each in asked] == words


def _lexemes(either: str) -> list[str]:
    return either.strip("()").split(" | ")


def narrowed(branches: Sequence[Branch]) -> list[Branch]:
    """The same, with those marked whose grants leave only few rows to see; one query, none where
    no grant limits times or records."""
    limited = [number for number, each in enumerate(branches) if _is_limited(each)]
    if not limited:
        return list(branches)
    visible = (
        Fragment("SELECT count(*) FROM (SELECT FROM (")
        + branches[number].visible.matching(Fragment(""), source=IN_TIME)
        + Fragment(f") r LIMIT {NARROW + 1}) c")
        for number in limited
    )
    counts = fetched_by_one_plan(joined(" UNION ALL ", visible))
    narrow = {number for number, (count,) in zip(limited, counts, strict=True) if count <= NARROW}
    return [replace(each, narrow=number in narrow) for number, each in enumerate(branches)]


def _is_limited(branch: Branch) -> bool:
    terms = [sight.terms for sight in branch.visible.sights]
    return any(each.time is not None or isinstance(each.records, Only) for each in terms)


def _in_turn(branches: Sequence[Branch], most: int) -> int:
    """The matches among the newest rows of each connection."""
    rows = (
        Fragment("SELECT FROM (") + part + Fragment(" WHERE w.hit")
        for part in _newest(_richest_first(branches), READ_IN_TURN * most)
    )
    statement = Fragment("SELECT count(*) FROM (SELECT FROM (") + joined(" UNION ALL ", rows)
    statement += Fragment(") m LIMIT %s) c", (most + 1,))
    return int(fetched_by_one_plan(statement)[0][0])


def _sample(branches: Sequence[Branch]) -> Fragment:
    rows = (Fragment("SELECT w.hit::int FROM (") + part for part in _newest(branches, SAMPLED))
    return joined(" UNION ALL ", rows)


def _newest(branches: Sequence[Branch], size: int) -> list[Fragment]:
    """For each connection its newest rows ``w`` and whether they match."""
    return [
        Fragment("SELECT (r.terms @@ %s::tsquery) AS hit", (branch.terms.matching,))
        + Fragment(f" FROM {IN_TIME} WHERE r.connection_id = %s", (connection_id,))
        + group.condition
        + Fragment(" ORDER BY r.consent_time DESC LIMIT %s) w", (size,))
        for branch in branches
        for group in branch.visible.groups
        for connection_id in group.connection_ids
    ]
