"""Search over visible rows: exact, over all matches, with nothing hidden in the ranking.

A query that few rows match is answered by scoring them all, and so is one that matches too variously.
For the others ``evidence.access.ranking.top_k`` finds the same places without looking at all matches.
Which way is taken changes what an answer costs and never what it says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from evidence.access.ranking.match_counts import counted as counted
from evidence.access.ranking.match_counts import narrowed
from evidence.access.ranking.scores import Branch as Branch
from evidence.access.ranking.scores import (
    Place,
    best_first,
    every,
    first,
    first_of_all,
    newest_first,
    place_of,
)
from evidence.access.ranking.scores import Rank as Rank
from evidence.access.ranking.scores import Terms as Terms
from evidence.access.ranking.top_k import Levels, walked
from evidence.access.records import SHOWN, VisibleRecord, VisibleRecords
from evidence.access.sql import Fragment, fetched_by_one_plan, joined


class Located(Protocol):
    """A record of the stream ``number``."""

    @property
    def number(self) -> int: ...
    @property
    def connection_id(self) -> str: ...
    @property
    def record_key(self) -> str: ...


def rows_of(
    streams: Sequence[VisibleRecords], places: Sequence[Located]
) -> list[VisibleRecord | None]:
    """The record of each place; None where it is not there any more. One query."""
    parts = []
    for number, visible in enumerate(streams):
        here = [(at, each) for at, each in enumerate(places) if each.number == number]
        for group in visible.groups if here else ():
            keys = (
                [at for at, _ in here],
                [each.connection_id for _, each in here],
                [each.record_key for _, each in here],
            )
            part = Fragment(
                f"SELECT n.at, {SHOWN} FROM unnest(%s::int[], %s::text[], %s::text[])"
                " AS n(at, id, key) CROSS JOIN LATERAL (SELECT * FROM evidence_record r"
                " WHERE r.connection_id = n.id AND r.record_key = n.key"
                " AND r.connection_id = ANY(%s)",
                (*keys, group.connection_ids),
            )
            parts.append(part + group.condition + Fragment(" LIMIT 1) r"))
    if not parts:
        return [None for _ in places]
    rows = {at: row for at, *row in fetched_by_one_plan(joined(" UNION ALL ", parts))}
    return [
        streams[place.number].cut(tuple(rows[at])) if at in rows else None
        for at, place in enumerate(places)
    ]


FEW = 200
"""So many matches are fetched whole and put in order here."""
SCORED = 1_500
"""So many are scored and put in order by the database."""
WALKS = (250, 2_000, 16_000)
"""How many of the newest rows of each connection are looked at, one after the other."""


@dataclass(frozen=True, slots=True)
class Match:
    visible: VisibleRecords
    record: VisibleRecord
    rank: Rank


class Matches:
    """All matches of a query, in the order of hits or the newest first. ``counted_to`` is how far
    they are counted."""

    def __init__(
        self, branches: Sequence[Branch], *, counted_to: int, newest: bool = False
    ) -> None:
        self._branches = narrowed(branches)
        self._counted_to = counted_to
        self._by_time = newest
        self._known: int | None = None

    @property
    def count(self) -> int:
        """How many there are, exactly up to ``counted_to``; beyond it some larger number."""
        if self._known is None:
            self._known = counted(self._branches, most=self._counted_to)
        return self._known

    def page(self, *, limit: int, after: Rank | None = None) -> list[Match]:
        """The next ``limit`` matches with their rows. Three statements where there are few matches,
        one of which counts; else up to one for each score that is looked for."""
        return next(self.batches(limit=limit, after=after, size=limit), [])

    def batches(self, *, limit: int, after: Rank | None, size: int) -> Iterator[list[Match]]:
        """The next ``limit`` matches; rows are read ``size`` at a time, as they are taken."""
        places = self._places(limit, None if after is None else place_of(after))
        for start in range(0, len(places), size):
            yield self._with_rows(places[start : start + size])

    def _places(self, limit: int, after: Place | None) -> list[Place]:
        branches, newest = self._branches, self._by_time
        if branches and all(branch.narrow for branch in branches):
            count, places = first_of_all(branches, limit=limit, after=after, newest=newest)
            self._known = count or self._known
            return places
        if self.count <= FEW:
            return self._few(limit, after)
        if self.count > SCORED and not newest:
            return Levels(branches, self.count > self._counted_to).first(limit, after)
        if self.count > SCORED:
            found = self._newest(limit, after)
            if found is not None:
                return found
        return first(branches, limit=limit, after=after, newest=newest)

    def _few(self, limit: int, after: Place | None) -> list[Place]:
        if not self.count:
            return []
        key = newest_first if self._by_time else best_first
        order = sorted(every(self._branches), key=key)
        return [each for each in order if after is None or key(each) > key(after)][:limit]

    def _newest(self, limit: int, after: Place | None) -> list[Place] | None:
        """The newest of very many, along the index of times; None where that leads too far."""
        if not all(branch.shows_time for branch in self._branches):
            return None
        for size in WALKS:
            walk = walked(self._branches, after, size=size)
            order = sorted(walk.found, key=newest_first)
            if after is not None:
                order = [each for each in order if newest_first(each) > newest_first(after)]
            if len(order) >= limit and walk.sees_past(order[limit - 1]):
                return order[:limit]
        return None

    def _with_rows(self, places: Sequence[Place]) -> list[Match]:
        """The rows of places, each asked once more whether it is visible; one query."""
        streams = [branch.visible for branch in self._branches]
        return [
            Match(streams[place.number], record, place.rank)
            for place, record in zip(places, rows_of(streams, places), strict=True)
            if record is not None
        ]
