"""Search over visible rows: exact, over all matches, with nothing hidden in the ranking.

A lexeme carries its field, and only the codes of granted fields are ever asked for, so a hidden
field cannot match, rank or be counted. The score of a row is, summed over the words, ``WORD`` and the
best tier at which it stands in a granted field; ties fall to the consent time where that is granted,
then to the id. No statistic over the stored texts takes part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.access.statements import Fragment, fetched, joined

WORD = 4
"""What a word is worth at its lowest tier: no tier of one word outweighs a second word."""

SOURCE = (
    "(SELECT connection_id, stream, record_key, terms, authored_at AS consent_time"
    " FROM evidence_searchtext) r"
)


@dataclass(frozen=True, slots=True)
class Terms:
    """A query in the words of one stream: who matches, and per word the queries of each tier.

    ``tiers`` goes from the highest tier to the lowest; each text is a tsquery.
    """

    matching: str
    tiers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One stream with the terms that ask for its granted fields only."""

    visible: VisibleRecords
    terms: Terms


@dataclass(frozen=True, slots=True)
class Rank:
    """A place in the order of hits: score, then time (None last), then id."""

    score: int
    at: datetime | None
    connection_id: str
    stream: str
    record_key: str


@dataclass(frozen=True, slots=True)
class Match:
    visible: VisibleRecords
    record: VisibleRecord
    rank: Rank


ORDER = "u.score DESC, u.at DESC NULLS LAST, u.connection_id, u.stream, u.record_key"
NEWEST = "u.at DESC NULLS LAST, u.score DESC, u.connection_id, u.stream, u.record_key"


def ranked(
    branches: Sequence[Branch], *, limit: int, after: Rank | None, newest_first: bool
) -> list[Match]:
    """The next ``limit`` matches with their rows, in one query."""
    if not branches:
        return []
    inner = joined(" UNION ALL ", (_scored(number, each) for number, each in enumerate(branches)))
    order = NEWEST if newest_first else ORDER
    statement = Fragment("SELECT h.branch, h.score, h.at, r.connection_id, r.stream, ")
    statement += Fragment("r.record_key, r.sort_key, r.emitted_at, r.field_emitted, r.data FROM (")
    statement += Fragment("SELECT u.* FROM (") + inner + Fragment(") u")
    statement += _beyond(after, newest_first=newest_first)
    statement += Fragment(f" ORDER BY {order} LIMIT %s) h JOIN evidence_record r", (limit,))
    statement += Fragment(
        " ON r.connection_id = h.connection_id AND r.stream = h.stream"
        " AND r.record_key = h.record_key ORDER BY "
    )
    statement += Fragment(order.replace("u.", "h."))
    return [_match(branches, row) for row in fetched(statement)]


def counted(branches: Sequence[Branch], *, most: int) -> int:
    """How many rows match, up to ``most`` + 1; one query."""
    if not branches:
        return 0
    one = (
        each.visible.matching(Fragment("1"), [_matches(each)], source=SOURCE) for each in branches
    )
    statement = Fragment("SELECT count(*) FROM (SELECT 1 FROM (") + joined(" UNION ALL ", one)
    statement += Fragment(") u LIMIT %s) c", (most + 1,))
    return int(fetched(statement)[0][0])


def _matches(branch: Branch) -> Fragment:
    return Fragment(" AND r.terms @@ %s::tsquery", (branch.terms.matching,))


def _scored(number: int, branch: Branch) -> Fragment:
    """Rows of one branch with score and, where it is granted, time."""
    score = joined(" + ", (_word_score(tiers) for tiers in branch.terms.tiers))
    shows_time = branch.visible.shows(branch.visible.stream.consent_time_field)
    at = "r.consent_time" if shows_time else "NULL::timestamptz"
    columns = Fragment("%s::int AS branch, r.connection_id, r.stream, r.record_key, ", (number,))
    columns += Fragment(f"{at} AS at, ") + (score if score.text else Fragment("0"))
    columns += Fragment(" AS score")
    return branch.visible.matching(columns, [_matches(branch)], source=SOURCE)


def _word_score(tiers: Sequence[str]) -> Fragment:
    """The highest tier at which the word stands, counted from ``WORD``; none is zero."""
    cases = Fragment("CASE")
    for place, query in enumerate(tiers):
        points = WORD + len(tiers) - place - 1
        cases += Fragment(f" WHEN r.terms @@ %s::tsquery THEN {points}", (query,))
    return cases + Fragment(" ELSE 0 END")


def _beyond(after: Rank | None, *, newest_first: bool) -> Fragment:
    if after is None:
        return Fragment("")
    place = "(u.connection_id, u.stream, u.record_key) > (%s, %s, %s)"
    ids = (after.connection_id, after.stream, after.record_key)
    if newest_first:
        same_time = _same(after.at)
        tail = Fragment("(u.score < %s OR (u.score = %s AND ", (after.score, after.score))
        tail += Fragment(f"{place}))", ids)
        return (
            Fragment(" WHERE (")
            + _later(after.at, same_time + Fragment(" AND ") + tail)
            + Fragment(")")
        )
    tail = _later(after.at, _same(after.at) + Fragment(f" AND {place}", ids))
    return (
        Fragment(" WHERE (u.score < %s OR (u.score = %s AND (", (after.score, after.score))
        + tail
        + Fragment(")))")
    )


def _same(at: datetime | None) -> Fragment:
    return Fragment("u.at IS NULL") if at is None else Fragment("u.at = %s", (at,))


def _later(at: datetime | None, tie: Fragment) -> Fragment:
    """Further down in time, or ``tie`` within the same one; rows without a time come last."""
    if at is None:
        return Fragment("(") + tie + Fragment(")")
    return Fragment("(u.at < %s OR u.at IS NULL OR (", (at,)) + tie + Fragment("))")


def _match(branches: Sequence[Branch], row: Sequence[Any]) -> Match:
    number, score, at, connection_id, stream, record_key = row[:6]
    visible = branches[number].visible
    record = visible.cut((connection_id, record_key, *row[6:]))
    return Match(visible, record, Rank(score, at, connection_id, stream, record_key))
