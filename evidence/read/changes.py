"""Return what changed since a bookmark, record by record, and encode bookmarks.

A client that reads to the end of the feed has exactly what the grant shows. The first page fixes
where the feed ends; a record is returned as it is when its page is read. Changes in between are
returned again next time.

A bookmark is bound to the caller, the stream and the requested connection, if any. Events contain
the same bookmarks, so a subscriber can continue from an event.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from evidence.access import crypto
from evidence.access.change_log import FeedItem, FeedPosition, LogHead, find_items
from evidence.access.crypto import key_for
from evidence.access.records import RecordKey, VisibleRecords
from evidence.access.scope import Scope
from evidence.errors import CursorExpired
from evidence.models.events import Bookmark


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


MAX_INLINE_CONNECTIONS = 8
CONNECTION_DIGEST_BYTES = 6
NUMBER_BYTES = 5
HANDLE_BYTES = 16
NO_NUMBER = 256**NUMBER_BYTES - 1


def encode_positions(positions: Mapping[str, FeedPosition], *, owner_id: str, now: datetime) -> str:
    """Encode feed positions compactly. Positions of more than eight connections are stored, with
    one query, and the text is their handle."""
    content = b"".join(_pack(key, positions[key]) for key in sorted(positions))
    if len(positions) <= MAX_INLINE_CONNECTIONS:
        return "v" + base64.b64encode(content).decode()
    key = key_for("bookmark")
    handle = hashlib.blake2b(
        owner_id.encode() + b"/" + content, digest_size=HANDLE_BYTES, key=key
    ).digest()
    row = Bookmark(handle=handle, owner_id=owner_id, content=content, used_at=now)
    Bookmark.unscoped.bulk_create(
        [row], update_conflicts=True, unique_fields=["owner", "handle"], update_fields=["used_at"]
    )
    return "h" + base64.b64encode(handle).decode()


def encoded_length(connections: int) -> int:
    """Return the length of the encoded positions of this many connections."""
    is_inline = connections <= MAX_INLINE_CONNECTIONS
    packed = (
        connections * (CONNECTION_DIGEST_BYTES + 3 * NUMBER_BYTES) if is_inline else HANDLE_BYTES
    )
    return 1 + -(-packed // 3) * 4


def decode_positions(
    text: str, *, owner_id: str, connection_ids: Sequence[str]
) -> dict[str, FeedPosition]:
    """Return the feed position of each connection in the bookmark.

    Raises CursorExpired if it is no longer stored, or if one of its connections is not among
    ``connection_ids``, because all records of that connection disappeared at once.
    """
    content = base64.b64decode(text[1:])
    if text[0] == "h":
        content = _stored_content(content, owner_id)
    ids = {_connection_digest(connection_id): connection_id for connection_id in connection_ids}
    size = CONNECTION_DIGEST_BYTES + 3 * NUMBER_BYTES
    positions: dict[str, FeedPosition] = {}
    for start in range(0, len(content), size):
        entry = content[start : start + size]
        digest, numbers = entry[:CONNECTION_DIGEST_BYTES], entry[CONNECTION_DIGEST_BYTES:]
        if digest not in ids:
            raise CursorExpired(message="A connection of the bookmark no longer exists.")
        positions[ids[digest]] = _unpack(numbers)
    return positions


def delete_unused_bookmarks(*, unused_since: datetime) -> int:
    """Delete stored bookmarks that were not issued or used since, and return their number."""
    return Bookmark.unscoped.filter(used_at__lt=unused_since).delete()[0]


def _stored_content(handle: bytes, owner_id: str) -> bytes:
    rows = Bookmark.unscoped.filter(handle=handle, owner_id=owner_id)
    content = rows.values_list("content", flat=True).first()
    if content is None:
        raise CursorExpired(message="The bookmark has expired.")
    return bytes(content)


def _pack(connection_id: str, position: FeedPosition) -> bytes:
    numbers = (position.since, position.known, position.until)
    return _connection_digest(connection_id) + b"".join(
        (NO_NUMBER if number is None else number).to_bytes(NUMBER_BYTES, "big")
        for number in numbers
    )


def _unpack(numbers: bytes) -> FeedPosition:
    since, known, until = (
        int.from_bytes(numbers[start : start + NUMBER_BYTES], "big")
        for start in range(0, 3 * NUMBER_BYTES, NUMBER_BYTES)
    )
    return FeedPosition(
        since=None if since == NO_NUMBER else since,
        known=known,
        until=None if until == NO_NUMBER else until,
    )


def _connection_digest(connection_id: str) -> bytes:
    return hashlib.blake2b(connection_id.encode(), digest_size=CONNECTION_DIGEST_BYTES).digest()


BEGINNING = "beginning"
KIND = "changes"


@dataclass(frozen=True, slots=True)
class FollowedStream:
    """A stream whose changes a caller follows, over all of its connections or one of them."""

    scope: Scope
    visible: VisibleRecords
    connection_id: str | None

    def decode(self, text: str) -> FeedBookmark:
        """Return the decoded bookmark. Raises InvalidCursor and CursorExpired."""
        if text == BEGINNING:
            return beginning(self.visible)
        place = crypto.decode_cursor(
            text, KIND, scope=self.scope, query=self._query, param="changes_since"
        )
        return self.from_json(place)

    def encode(self, bookmark: FeedBookmark, *, now: datetime) -> str:
        """Return the bookmark as text. Runs one query if there are more than eight connections."""
        place = self.to_json(bookmark, now=now)
        return crypto.encode_cursor(KIND, scope=self.scope, query=self._query, place=place)

    def max_encoded_length(self, bookmark: FeedBookmark, *, items: Iterable[FeedItem]) -> int:
        """Return the length of the longest bookmark after any of the items."""
        text = "v" * encoded_length(len(self.visible.connections))
        ends = [[item.connection.connection_id, item.record_key] for item in items]
        longest = max(ends, key=lambda end: len("".join(end)), default=None)
        place = _state(bookmark, text) | {"a": longest}
        return crypto.cursor_length(KIND, scope=self.scope, query=self._query, places=[place])

    def to_json(self, bookmark: FeedBookmark, *, now: datetime) -> dict[str, Any]:
        """Return the bookmark as JSON, to encrypt it or to store it with a subscription."""
        text = encode_positions(bookmark.positions, owner_id=self.scope.owner_id, now=now)
        return _state(bookmark, text)

    def from_json(self, place: Mapping[str, Any]) -> FeedBookmark:
        """Return the bookmark that `to_json` serialized. Raises CursorExpired."""
        positions = decode_positions(
            place["v"],
            owner_id=self.scope.owner_id,
            connection_ids=[facts.connection_id for facts in self.visible.connections],
        )
        return FeedBookmark(
            positions=positions,
            times=place["m"],
            since_at=_from_seconds(place["s"]),
            until_at=_from_seconds(place["u"]),
            after=RecordKey(*place["a"]) if place["a"] else None,
        )

    @property
    def _query(self) -> dict[str, Any]:
        return {
            "stream": [self.visible.source.connector_key, self.visible.stream.name],
            "connection_id": self.connection_id,
        }


def _state(bookmark: FeedBookmark, text: str) -> dict[str, Any]:
    after = bookmark.after
    return {
        "v": text,
        "m": bookmark.times,
        "s": _to_seconds(bookmark.since_at),
        "u": _to_seconds(bookmark.until_at),
        "a": [after.connection_id, after.record_key] if after else None,
    }


def _from_seconds(seconds: int) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _to_seconds(moment: datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0
