"""Scores of matches in SQL.

A lexeme carries its field, and only the codes of granted fields are ever asked for, so a hidden
field cannot match, rank or be counted. The score of a row is, summed over the words, ``WORD`` and the
best tier at which it stands in a granted field; ties fall to the consent time where that is granted,
then to the id. No statistic over the stored texts takes part.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from evidence.access.places import Branch, Place, places_of
from evidence.access.rows import NAMED_ONE_BY_ONE, Group
from evidence.access.statements import Fragment, fetched_by_one_plan, joined

WORD = 4
"""What a word is worth at its lowest tier: no tier of one word outweighs a second word."""

IN_TIME = (
    "(SELECT connection_id, stream, record_key, terms, authored_at AS consent_time"
    " FROM evidence_searchtext) r"
)
BY_WORDS = IN_TIME.replace("authored_at", "authored_at + interval '0'")
"""The same without a way in by time. Every statement here has one plan, which must not hang on how
many rows the planner expects: those that look words up do so in the inverted index, and those that
go by time do not."""
ORDER = "u.score DESC, u.at DESC NULLS LAST, u.connection_id, u.stream, u.record_key"
NEWEST = "u.at DESC NULLS LAST, u.score DESC, u.connection_id, u.stream, u.record_key"
PLACED = (
    "SELECT p.number, p.score, (extract(epoch FROM p.at) * 1000000)::bigint, p.connection_id,"
    " p.stream, p.record_key"
)


def matching(
    branch: Branch, columns: Fragment, queries: Sequence[str], *, but_not: str | None = None
) -> Fragment:
    """``SELECT columns`` of the visible rows ``r`` that match all of some tsqueries, and not another
    one, for which the rows that are found are looked at."""
    indexed, looked_at = " AND r.terms @@ %s::tsquery", " AND (r.terms @@ %s::tsquery) IS TRUE"
    tests = [Fragment(looked_at if branch.narrow else indexed, (query,)) for query in queries]
    if but_not is not None:
        tests.append(Fragment(" AND (r.terms @@ %s::tsquery) IS FALSE", (but_not,)))
    start = Fragment("SELECT ") + columns
    start += Fragment(f" FROM {IN_TIME if branch.narrow else BY_WORDS} WHERE ")
    return joined(
        " UNION ALL ",
        (
            start + through + group.condition + joined("", tests)
            for group in branch.visible.groups
            for through in _through(group)
        ),
    )


def _through(group: Group) -> Iterator[Fragment]:
    """Each connection by itself, as one is in one partition; very many all together."""
    ids = group.connection_ids
    if len(ids) > NAMED_ONE_BY_ONE:
        yield Fragment("r.connection_id = ANY(%s)", (ids,))
        return
    for connection_id in ids:
        yield Fragment("r.connection_id = %s", (connection_id,))


def columns(number: int, branch: Branch, score: Fragment) -> Fragment:
    """Those of a ``Place``, but for the time, which ``placed`` makes a number."""
    at = "r.consent_time" if branch.shows_time else "NULL::timestamptz"
    columns = Fragment("%s::int AS number, ", (number,)) + score
    return columns + Fragment(f" AS score, {at} AS at, r.connection_id, r.stream, r.record_key")


def score(branch: Branch) -> Fragment:
    """The points of a row, worked out from its terms."""
    words = joined(" + ", (_word_score(tiers) for tiers in branch.terms.tiers))
    return words if words.text else Fragment("0")


def first(
    branches: Sequence[Branch], *, limit: int, after: Place | None, newest: bool
) -> list[Place]:
    """The first ``limit`` places beyond ``after``, found by scoring every match; one query."""
    statement = Fragment("SELECT u.* FROM (") + _every(branches) + Fragment(") u")
    statement += _beyond(after, newest=newest)
    order = Fragment(f" ORDER BY {NEWEST if newest else ORDER} LIMIT %s", (limit,))
    return placed(statement + order)


def first_of_all(
    branches: Sequence[Branch], *, limit: int, after: Place | None, newest: bool
) -> tuple[int, list[Place]]:
    """The same, and how many matches there are in all; zero where there are none beyond ``after``."""
    statement = Fragment(
        f"{PLACED}, p.total FROM (SELECT u.* FROM (SELECT count(*) OVER () AS total,"
    )
    statement += Fragment(" e.* FROM (") + _every(branches) + Fragment(") e) u")
    statement += _beyond(after, newest=newest)
    order = Fragment(f" ORDER BY {NEWEST if newest else ORDER} LIMIT %s) p", (limit,))
    rows = fetched_by_one_plan(statement + order)
    return (rows[0][-1] if rows else 0), places_of([row[:-1] for row in rows])


def every(branches: Sequence[Branch]) -> list[Place]:
    """The places of all matches, in no order; one query."""
    return placed(_every(branches))


def placed(rows: Fragment) -> list[Place]:
    """The places of the ``columns`` of rows, in their order; one query."""
    return places_of(fetched_by_one_plan(Fragment(f"{PLACED} FROM (") + rows + Fragment(") p")))


def _every(branches: Sequence[Branch]) -> Fragment:
    return joined(
        " UNION ALL ",
        (
            matching(each, columns(number, each, score(each)), [each.terms.matching])
            for number, each in enumerate(branches)
        ),
    )


def _word_score(tiers: Sequence[str]) -> Fragment:
    """The highest tier at which the word stands, counted from ``WORD``; none is zero."""
    cases = Fragment("CASE")
    for place, query in enumerate(tiers):
        points = WORD + len(tiers) - place - 1
        cases += Fragment(f" WHEN r.terms @@ %s::tsquery THEN {points}", (query,))
    return cases + Fragment(" ELSE 0 END")


def _beyond(after: Place | None, *, newest: bool) -> Fragment:
    if after is None:
        return Fragment("")
    if newest:
        return Fragment(" WHERE ") + _older(after.rank.at, _below(after.score, _later_id(after)))
    return Fragment(" WHERE ") + _below(after.score, beyond_in_time(after))


def beyond_in_time(after: Place) -> Fragment:
    """Places ``u`` that come after a place when their scores are the same."""
    return _older(after.rank.at, _later_id(after))


def _later_id(after: Place) -> Fragment:
    ids = after.connection_id, after.stream, after.record_key
    return Fragment("(u.connection_id, u.stream, u.record_key) > (%s, %s, %s)", ids)


def _below(points: int, tie: Fragment) -> Fragment:
    """A lower score, or ``tie`` with the same one."""
    return Fragment("(u.score < %s OR (u.score = %s AND ", (points, points)) + tie + Fragment("))")


def _older(at: datetime | None, tie: Fragment) -> Fragment:
    """An earlier time, or ``tie`` with the same one; rows without a time come last."""
    if at is None:
        return Fragment("(u.at IS NULL AND ") + tie + Fragment(")")
    older = Fragment("(u.at < %s OR u.at IS NULL OR (u.at = %s AND ", (at, at))
    return older + tie + Fragment("))")
