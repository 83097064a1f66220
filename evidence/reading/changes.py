"""What has changed since a bookmark, record by record, over all connections of a stream.

A client that follows the bookmarks holds, whenever it has read to the end, exactly what the grant
shows. Where the pages end is fixed when the first is read; a record is told as it is when its page
is read. What was written in between is told again next time where that is not certain to be known.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import orjson

from evidence.access.change_log import Candidate, Head, Place, candidates
from evidence.access.record_history import Outcome, Reach, gone_at, outcome
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.errors import CursorExpired


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A record that was visible at the bookmark and is not any more, for whatever reason."""

    connection: ConnectionFacts
    record_key: str
    gone_at: datetime


MOST_CANDIDATES = 1_000
"""Looked at by one query."""

Told: TypeAlias = VisibleRecord | Tombstone


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a client stands. ``since_at`` and ``until_at`` are when the numbers in ``reaches`` were
    the latest, None where there are none; ``times`` names what the times of records are made of."""

    reaches: Mapping[str, Reach]
    times: str
    since_at: datetime | None = None
    until_at: datetime | None = None
    after: Place | None = None


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """``ended`` is where a client stands that has read to the end."""

    told: Sequence[Told]
    has_more: bool
    standing: Standing
    ended: Standing

    def standing_after(self, shown: int) -> Standing:
        """Where a client stands that was shown the first so many."""
        if shown == len(self.told) and not self.has_more:
            return self.ended
        last = self.told[shown - 1]
        place = Place(last.connection.connection_id, last.record_key)
        return replace(self.standing, after=place)


def beginning(visible: VisibleRecords) -> Standing:
    """Nothing is known of any connection."""
    return _joined(Standing({}, time_mark(visible)), visible)


def from_now(visible: VisibleRecords, latest: Mapping[str, int], *, now: datetime) -> Standing:
    """Everything up to the ``latest`` change of each of these connections is known."""
    reaches = {connection_id: Reach(seq, known=seq) for connection_id, seq in latest.items()}
    return Standing(reaches, time_mark(visible), since_at=now)


def page(visible: VisibleRecords, standing: Standing, *, limit: int, now: datetime) -> ChangesPage:
    """At most ``limit`` records and tombstones.

    One query, and another for as many candidates as came to nothing, having been changed and
    changed back. Raises ``CursorExpired`` when the history that it takes is not kept any more.
    """
    if standing.times != time_mark(visible):
        raise CursorExpired(message="The stream tells the times of its records differently now.")
    if standing.until_at is None:
        standing = replace(_joined(standing, visible), until_at=now)
    told: list[Told] = []
    heads: Mapping[str, Head] = {}
    after, wanted, is_more = standing.after, limit + 1, True
    while is_more and len(told) <= limit:
        heads, found = candidates(visible, standing.reaches, after=after, limit=wanted)
        _require_history(standing, heads)
        standing = replace(standing, reaches=_bounded(standing.reaches, heads))
        told += filter(None, (_told(visible, each, standing.reaches) for each in found))
        is_more = len(found) == wanted
        after = Place(found[-1].connection_id, found[-1].record_key) if found else after
        wanted = min(2 * wanted, MOST_CANDIDATES)
    return ChangesPage(told[:limit], len(told) > limit, standing, _ended(standing, heads))


def time_mark(visible: VisibleRecords) -> str:
    """Names what consent times are made of: a declaration may change it without any record."""
    return hashlib.blake2b(orjson.dumps(visible.layout["time"]), digest_size=4).hexdigest()


def _joined(standing: Standing, visible: VisibleRecords) -> Standing:
    """With connections that were added since the bookmark; nothing is known of them."""
    new = {
        facts.connection_id: Reach(None)
        for facts in visible.connections
        if facts.connection_id not in standing.reaches
    }
    return replace(standing, reaches={**standing.reaches, **new})


def _bounded(reaches: Mapping[str, Reach], heads: Mapping[str, Head]) -> dict[str, Reach]:
    return {
        connection_id: reach
        if reach.until is not None
        else replace(reach, until=heads[connection_id].seq)
        for connection_id, reach in reaches.items()
    }


def _ended(standing: Standing, heads: Mapping[str, Head]) -> Standing:
    reaches = {
        connection_id: Reach(since=reach.until, known=heads[connection_id].seq)
        for connection_id, reach in standing.reaches.items()
    }
    return Standing(reaches, standing.times, since_at=standing.until_at)


def _require_history(standing: Standing, heads: Mapping[str, Head]) -> None:
    """Expiry goes by time, since numbers of changes would tell of hidden ones; the numbers only
    catch what was recorded under an earlier time, and a log that was restored from a backup."""
    for connection_id, reach in standing.reaches.items():
        head = heads[connection_id]
        floor, at = reach.since, standing.since_at
        if floor is None:
            floor, at = reach.until, standing.until_at
        if floor is None or at is None:
            continue
        too_old = head.kept_since is not None and at < head.kept_since
        if too_old or not head.pruned_seq <= floor <= head.seq:
            raise CursorExpired(message="The bookmark is older than the history that is kept.")


def _told(
    visible: VisibleRecords, candidate: Candidate, reaches: Mapping[str, Reach]
) -> Told | None:
    reach = reaches[candidate.connection_id]
    if reach.since is None:
        return candidate.record
    found = outcome(
        candidate.changes,
        None if candidate.record is None else candidate.record.data,
        fields=candidate.sight.terms.fields,
        reach=reach,
        until=reach.until or 0,
    )
    if found is Outcome.SAME:
        return None
    if found is Outcome.SHOWN:
        return candidate.record
    facts = visible.facts_of[candidate.connection_id]
    return Tombstone(facts, candidate.record_key, gone_at(candidate.changes))
