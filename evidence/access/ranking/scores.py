"""Matches before their rows are read: what was asked of which stream, and where a match stands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from evidence.access.records import NAMED_ONE_BY_ONE, Group, VisibleRecords
from evidence.access.sql import Fragment, fetched_by_one_plan, joined

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Terms:
    """A query in the words of one stream: who matches, and per word the queries of each tier.

    ``tiers`` goes from the highest tier to the lowest; each text is a tsquery.
    """

    matching: str
    tiers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One stream with the terms that ask for its granted fields only. ``narrow``: so few rows are
    visible at all that each may be asked whether it matches."""

    visible: VisibleRecords
    terms: Terms
    narrow: bool = False

    @property
    def shows_time(self) -> bool:
        """Whether the consent time may break ties; hidden, it counts as missing."""
        return self.visible.shows(self.visible.stream.consent_time_field)


@dataclass(frozen=True, slots=True)
class Rank:
    """A place in the order of hits: score, then time (None last), then id."""

    score: int
    at: datetime | None
    connection_id: str
    stream: str
    record_key: str


class Place(NamedTuple):
    """A match of the branch ``number``; ``at`` are microseconds since 1970."""

    number: int
    score: int
    at: int | None
    connection_id: str
    stream: str
    record_key: str

    @property
    def rank(self) -> Rank:
        at = None if self.at is None else _EPOCH + self.at * _MICROSECOND
        return Rank(self.score, at, self.connection_id, self.stream, self.record_key)


Key: TypeAlias = tuple[Any, ...]


def place_of(rank: Rank) -> Place:
    """A place that compares as the rank does."""
    at = None if rank.at is None else (rank.at - _EPOCH) // _MICROSECOND
    return Place(-1, rank.score, at, rank.connection_id, rank.stream, rank.record_key)


def in_time(place: Place) -> Key:
    """Newest first, those without a time last, then by id."""
    ids = place.connection_id, place.stream, place.record_key
    return (place.at is None, -(place.at or 0), *ids)


def best_first(place: Place) -> Key:
    return (-place.score, *in_time(place))


def newest_first(place: Place) -> Key:
    late, at, *ids = in_time(place)
    return (late, at, -place.score, *ids)


def places_of(rows: Sequence[Sequence[Any]]) -> list[Place]:
    """Rows of the columns of a ``Place``."""
    return [Place(*row) for row in rows]


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
