"""Return what changed since a bookmark, record by record.

A client that reads to the end of the feed has exactly what the grant shows. The first page fixes
where the feed ends; a record is returned as it is when its page is read. Changes in between are
returned again next time.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from evidence.access.change_log import FeedItem, FeedPosition, LogHead, find_items
from evidence.access.records import RecordKey, VisibleRecords
from evidence.errors import CursorExpired


@dataclass(frozen=True, slots=True)
class FeedBookmark:
    """What a client has read of the feed.

    ``since_at`` and ``until_at`` are when the numbers in ``positions`` were the latest, or None.
    ``times`` is the `time_layout_digest` of the stream.
    """

    positions: Mapping[str, FeedPosition]
    times: str
    since_at: datetime | None = None
    until_at: datetime | None = None
    after: RecordKey | None = None


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """One page of the feed; ``end`` is the bookmark of a client that has read to the end."""

    items: Sequence[FeedItem]
    has_more: bool
    bookmark: FeedBookmark
    end: FeedBookmark

    def bookmark_after(self, count: int) -> FeedBookmark:
        """Return the bookmark of a client that has read the first ``count`` items."""
        if count == len(self.items) and not self.has_more:
            return self.end
        last = self.items[count - 1]
        return replace(
            self.bookmark, after=RecordKey(last.connection.connection_id, last.record_key)
        )


def beginning(visible: VisibleRecords) -> FeedBookmark:
    """Return the bookmark of a client that has read nothing."""
    return _with_new_connections(FeedBookmark({}, time_layout_digest(visible)), visible)


def from_now(visible: VisibleRecords, latest: Mapping[str, int], *, now: datetime) -> FeedBookmark:
    """Return the bookmark of a client that has read up to the ``latest`` change per connection."""
    positions = {
        connection_id: FeedPosition(seq, known=seq) for connection_id, seq in latest.items()
    }
    return FeedBookmark(positions, time_layout_digest(visible), since_at=now)


def page(
    visible: VisibleRecords, bookmark: FeedBookmark, *, limit: int, now: datetime
) -> ChangesPage:
    """Return at most ``limit`` records and tombstones. One query.

    Raises CursorExpired if the required history was deleted.
    """
    if bookmark.times != time_layout_digest(visible):
        raise CursorExpired(message="The time field of the stream changed after the bookmark.")
    if bookmark.until_at is None:
        bookmark = replace(_with_new_connections(bookmark, visible), until_at=now)
    heads, items = find_items(visible, bookmark.positions, after=bookmark.after, limit=limit + 1)
    _require_history(bookmark, heads)
    bookmark = replace(bookmark, positions=_with_upper_bounds(bookmark.positions, heads))
    end = _bookmark_at_end(bookmark, heads)
    return ChangesPage(items[:limit], len(items) > limit, bookmark, end)


def time_layout_digest(visible: VisibleRecords) -> str:
    """Identify how record times are computed; a declaration can change this without any record."""
    return hashlib.blake2b(orjson.dumps(visible.layout["time"]), digest_size=4).hexdigest()


def _with_new_connections(bookmark: FeedBookmark, visible: VisibleRecords) -> FeedBookmark:
    """Add the connections that are newer than the bookmark, with nothing read of them."""
    new = {
        facts.connection_id: FeedPosition(None)
        for facts in visible.connections
        if facts.connection_id not in bookmark.positions
    }
    return replace(bookmark, positions={**bookmark.positions, **new})


def _with_upper_bounds(
    positions: Mapping[str, FeedPosition], heads: Mapping[str, LogHead]
) -> dict[str, FeedPosition]:
    return {
        connection_id: position
        if position.until is not None
        else replace(position, until=heads[connection_id].seq)
        for connection_id, position in positions.items()
    }


def _bookmark_at_end(bookmark: FeedBookmark, heads: Mapping[str, LogHead]) -> FeedBookmark:
    positions = {
        connection_id: FeedPosition(since=position.until, known=heads[connection_id].seq)
        for connection_id, position in bookmark.positions.items()
    }
    return FeedBookmark(positions, bookmark.times, since_at=bookmark.until_at)


def _require_history(bookmark: FeedBookmark, heads: Mapping[str, LogHead]) -> None:
    """Raise CursorExpired if the history since the bookmark was deleted.

    Expiry depends on time because change numbers would reveal hidden changes. The numbers only
    detect entries recorded under an earlier time, and a log restored from a backup.
    """
    for connection_id, position in bookmark.positions.items():
        head = heads[connection_id]
        floor, at = position.since, bookmark.since_at
        if floor is None:
            floor, at = position.until, bookmark.until_at
        if floor is None or at is None:
            continue
        too_old = head.kept_since is not None and at < head.kept_since
        if too_old or not head.pruned_seq <= floor <= head.seq:
            raise CursorExpired(message="The bookmark is older than the stored history.")
