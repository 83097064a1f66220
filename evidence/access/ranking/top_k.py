"""The best matches of a query that has very many, without scoring them all.

Whoever asks sees a page, and nearly always a page of one score or two. So scores are taken from the
highest downward, and within one score the newest first, until the page is full. The newest rows of
each connection are looked at once: where a score is frequent among them they fill the page. Where it
is not, the inverted index gives exactly the rows of that score, of which there are then few.

The result is the same as if all had been scored; only what is visible decides it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence.access.ranking.scores import (
    IN_TIME,
    PLACED,
    WORD,
    Branch,
    Place,
    beyond_in_time,
    columns,
    first,
    in_time,
    matching,
    placed,
    score,
)
from evidence.access.records import Group
from evidence.access.sql import Fragment, fetched_by_one_plan, joined

WALKED = 250
"""So many of the newest rows of each connection are looked at."""
WALKED_AT_MOST = 3_000
"""So many, where the first ones promise that this fills the page."""
MOST_WAYS = 48
"""In how many ways words may make up one score; a statement names each."""
MISSES = -1
"""Stands for the score of the last row that was looked at."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The matches among the newest rows of all connections, and where each walk stopped."""

    found: Sequence[Place]
    ends: Sequence[Place]

    def level(self, points: int, after: Place | None) -> list[Place]:
        """The first places of one score beyond ``after``, as far as no other can come between."""
        end = min(map(in_time, self.ends), default=None)
        seen = [
            place
            for place in self.found
            if place.score == points
            and (end is None or in_time(place) <= end)
            and (after is None or in_time(place) > in_time(after))
        ]
        return sorted(seen, key=in_time)

    def sees_past(self, place: Place) -> bool:
        """The same for every row of the same time as well."""
        return all(in_time(place)[:2] < in_time(end)[:2] for end in self.ends)


@dataclass(frozen=True)
class Levels:
    """The matches of ``branches``, best first; ``very_many`` are more than could be counted."""

    branches: Sequence[Branch]
    very_many: bool

    def first(self, limit: int, after: Place | None) -> list[Place]:
        """The first ``limit`` places beyond ``after``."""
        found: list[Place] = []
        for points, count in self._ways.items():
            if after is not None and points > after.score:
                continue
            beyond = after if after is not None and points == after.score else None
            wanted = limit - len(found)
            level = self._walked(points, wanted, beyond)
            if level is None and count > MOST_WAYS:
                return found + self._every(points, wanted, beyond)
            found += self._indexed(points, wanted, beyond) if level is None else level
            if len(found) == limit:
                break
        return found

    def _walked(self, points: int, limit: int, after: Place | None) -> list[Place] | None:
        """The first ``limit`` places of one score, where the newest rows suffice for them."""
        walk = self._newest if after is None else walked(self.branches, after, size=WALKED)
        seen = walk.level(points, after)
        if len(seen) < limit and self.very_many and seen:
            size = 3 * WALKED * limit // (2 * len(seen))
            if size <= WALKED_AT_MOST:
                seen = walked(self.branches, after, size=size).level(points, after)
        return seen[:limit] if len(seen) >= limit else None

    def _indexed(self, points: int, limit: int, after: Place | None) -> list[Place]:
        """The first ``limit`` places of one score from the inverted index; one query."""
        parts = [
            matching(
                branch,
                columns(number, branch, Fragment("%s::int", (points,))),
                [*level, branch.terms.matching],
            )
            for number, branch in enumerate(self.branches)
            if (level := exactly(branch.terms.tiers, points)) is not None
        ]
        if not parts:
            return []
        statement = Fragment("SELECT u.* FROM (") + joined(" UNION ALL ", parts) + Fragment(") u")
        if after is not None:
            statement += Fragment(" WHERE ") + beyond_in_time(after)
        order = "u.at DESC NULLS LAST, u.connection_id, u.stream, u.record_key"
        statement += Fragment(f" ORDER BY {order} LIMIT %s", (limit,))
        return placed(statement)

    def _every(self, points: int, limit: int, after: Place | None) -> list[Place]:
        """The places of this score and of all lower ones, by scoring every match."""
        start = after or Place(-1, points + 1, None, LAST, LAST, LAST)
        return first(self.branches, limit=limit, after=start, newest=False)

    @cached_property
    def _ways(self) -> Mapping[int, int]:
        """Every score that there can be, the highest first, and in how many ways at most."""
        most: dict[int, int] = {}
        for branch in self.branches:
            for points, count in ways(branch.terms.tiers).items():
                most[points] = max(count, most.get(points, 0))
        return dict(sorted(most.items(), reverse=True))

    @cached_property
    def _newest(self) -> Walk:
        return walked(self.branches, None, size=WALKED)


LAST = "\U0010ffff"
"""Comes after every id."""


def ways(words: Sequence[Sequence[str]]) -> Mapping[int, int]:
    """Score -> in how many ways words with so many tiers make it up."""
    counts = {0: 1}
    for tiers in words:
        added: dict[int, int] = {}
        for points, _ in _choices(tiers):
            for known, count in counts.items():
                added[known + points] = added.get(known + points, 0) + count
        counts = added
    return counts


def exactly(words: Sequence[Sequence[str]], points: int) -> Sequence[str] | None:
    """What a row must match for its words to make up exactly so many points: one tsquery, none
    where no word scores; None if no row can."""
    found = list(_making(words, points))
    if not found:
        return None
    return [" | ".join(f"({' & '.join(way)})" for way in found)] if words else []


def _making(words: Sequence[Sequence[str]], points: int) -> Iterator[tuple[str, ...]]:
    if not words:
        if points == 0:
            yield ()
        return
    first_word, *others = words
    most = sum(WORD + len(tiers) - 1 for tiers in others)
    for worth, text in _choices(first_word):
        if 0 <= points - worth <= most:
            for rest in _making(others, points - worth):
                yield (text, *rest)


def _choices(tiers: Sequence[str]) -> Iterator[tuple[int, str]]:
    """What a word is worth at each of its tiers, and a tsquery for it at that tier and no higher
    one; at last, for nothing, one for its absence."""
    for place, text in enumerate(tiers):
        higher = " | ".join(tiers[:place])
        yield WORD + len(tiers) - place - 1, f"({text} & !({higher}))" if higher else f"({text})"
    yield 0, f"!({' | '.join(tiers)})"


def walked(branches: Sequence[Branch], after: Place | None, *, size: int) -> Walk:
    """Along the index of times, or of keys where the time is hidden; one query."""
    parts = {
        (number, connection_id): _newest_rows(number, branch, group, connection_id, after, size)
        for number, branch in enumerate(branches)
        for group in branch.visible.groups
        for connection_id in group.connection_ids
    }
    statement = Fragment(f"{PLACED}, p.last FROM (") + joined(" UNION ALL ", parts.values())
    found, stopped = [], {}
    for *columns_of_place, last in fetched_by_one_plan(statement + Fragment(") p")):
        place = Place(*columns_of_place)
        if place.score != MISSES:
            found.append(place)
        if last:
            stopped[place.number, place.connection_id] = place
    # Rows without a time come after all those with one, and were not looked at.
    untimed = [
        Place(number, MISSES, None, "", "", "")
        for number, connection_id in parts
        if (number, connection_id) not in stopped and branches[number].shows_time
    ]
    return Walk(found, [*stopped.values(), *untimed])


def _newest_rows(
    number: int,
    branch: Branch,
    group: Group,
    connection_id: str,
    after: Place | None,
    size: int,
) -> Fragment:
    rows = Fragment(f"SELECT * FROM {IN_TIME} WHERE r.connection_id = %s", (connection_id,))
    rows += group.condition
    if branch.shows_time:
        rows += Fragment(" AND r.consent_time IS NOT NULL")
        if after is not None and after.at is not None:
            rows += Fragment(" AND r.consent_time <= %s", (after.rank.at,))
        order = "r.consent_time DESC, r.record_key"
    else:
        if after is not None and after.at is None:
            ids = after.connection_id, after.stream, after.record_key
            rows += Fragment(" AND (r.connection_id, r.stream, r.record_key) > (%s, %s, %s)", ids)
        order = "r.record_key"
    rows += Fragment(f" ORDER BY {order} LIMIT %s", (size,))
    matches = Fragment("r.terms @@ %s::tsquery", (branch.terms.matching,))
    points = Fragment("CASE WHEN ") + matches + Fragment(" THEN ") + score(branch)
    points += Fragment(f" ELSE {MISSES} END")
    last = Fragment("r.place = %s", (size,))
    walk = Fragment("SELECT ") + columns(number, branch, points) + Fragment(", ") + last
    numbered = f"SELECT r.*, row_number() OVER (ORDER BY {order}) AS place FROM ("
    walk += Fragment(f" AS last FROM ({numbered}") + rows
    return walk + Fragment(") r) r WHERE ") + matches + Fragment(" OR ") + last
