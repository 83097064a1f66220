"""How many rows match, up to a bound, at a cost that is bounded as well."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from evidence.access.places import Branch
from evidence.access.scope import Only
from evidence.access.scores import IN_TIME, NOTHING, matching
from evidence.access.statements import Fragment, fetched_by_one_plan, joined

SAMPLED: Final = 16
"""So many of the newest rows of each connection tell whether most rows match."""
MOST: Final = "0.4"
"""From this share on, rows that are read in turn prove the bound sooner than the inverted index."""
READ_IN_TURN: Final = 4
"""So many times the bound are read at most."""
NARROW: Final = 10_000
"""So many visible rows a connection are all asked whether they match."""


def counted(branches: Sequence[Branch], *, most: int) -> int:
    """How many rows match, up to ``most`` + 1; one query, or up to three for words that are in most
    rows."""
    if not branches:
        return 0
    rare = Fragment(f"(SELECT count(*) < %s OR avg(s.hit) < {MOST} FROM s)", (SAMPLED,))
    statement = Fragment("WITH s AS MATERIALIZED (") + _sample(branches) + Fragment(") SELECT ")
    statement += _indexed(branches, Fragment(" AND ") + rare, most) + Fragment(", ") + rare
    count, was_rare = fetched_by_one_plan(statement)[0]
    if was_rare:
        return int(count)
    count = _in_turn(branches, most)
    if count > most:
        return count
    statement = Fragment("SELECT ") + _indexed(branches, NOTHING, most)
    return int(fetched_by_one_plan(statement)[0][0])


def _indexed(branches: Sequence[Branch], where: Fragment, most: int) -> Fragment:
    """By the inverted index. Counted outside of what is bounded: for a few rows the planner would
    read a whole table in the hope of meeting them soon."""
    # Those with the most searched fields first: they hold the most text, and so prove the bound.
    richest_first = sorted(branches, key=lambda each: -len(each.terms.matching))
    every = (
        matching(each, Fragment("1"), [part], where)
        for each in richest_first
        for part in _parts(each)
    )
    rows = Fragment("(WITH m AS MATERIALIZED (") + joined(" UNION ALL ", every)
    return rows + Fragment(") SELECT count(*) FROM (SELECT FROM m LIMIT %s) c)", (most + 1,))


def _parts(branch: Branch) -> list[str]:
    """Queries of which each match meets exactly one. A lone word is looked up tier by tier: when
    one of them proves the bound, the others need not be looked up."""
    whole, words = branch.terms.matching, branch.terms.tiers
    if len(words) != 1 or "&" in whole or "!" in whole:
        return [whole]
    tiers = words[0][::-1]
    return [
        f"{tier} & !({' | '.join(tiers[:place])})" if place else tier
        for place, tier in enumerate(tiers)
    ]


def narrowed(branches: Sequence[Branch]) -> list[Branch]:
    """The same, with those marked whose grants leave only few rows to see; one query, none where
    no grant limits times or records."""
    limited = [number for number, each in enumerate(branches) if _is_limited(each)]
    if not limited:
        return list(branches)
    visible = (
        Fragment("SELECT count(*) FROM (SELECT FROM (")
        + branches[number].visible.matching(NOTHING, source=IN_TIME)
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
    parts = (
        Fragment("SELECT FROM (") + part + Fragment(" WHERE w.hit")
        for part in _newest(branches, READ_IN_TURN * most)
    )
    statement = Fragment("SELECT count(*) FROM (SELECT FROM (") + joined(" UNION ALL ", parts)
    statement += Fragment(") m LIMIT %s) c", (most + 1,))
    return int(fetched_by_one_plan(statement)[0][0])


def _sample(branches: Sequence[Branch]) -> Fragment:
    parts = (Fragment("SELECT w.hit::int FROM (") + part for part in _newest(branches, SAMPLED))
    return joined(" UNION ALL ", parts)


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
