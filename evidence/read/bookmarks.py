"""Encode and decode bookmarks of the changes feed.

A bookmark is bound to the caller, the stream and the requested connection, if any. Events contain
the same bookmarks, so a subscriber can continue from an event.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evidence.access import crypto
from evidence.access.change_log import FeedItem, FeedPosition
from evidence.access.crypto import key_for
from evidence.access.records import RecordKey, VisibleRecords
from evidence.access.scope import Scope
from evidence.errors import CursorExpired
from evidence.models.events import Bookmark
from evidence.read import changes
from evidence.read.changes import FeedBookmark

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
            return changes.beginning(self.visible)
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
