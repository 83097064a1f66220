"""Bookmarks of the changes feed: where a client stands, as the text that it is given and brings
back.

A bookmark is bound to who follows, to the stream and to the one connection that was asked for, if
any. Events carry the very same texts, so a subscriber reads on from what it was sent.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evidence.access import cursors
from evidence.access.change_log import Place
from evidence.access.crypto import key_for
from evidence.access.record_history import Reach
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope
from evidence.errors import CursorExpired
from evidence.models.events import Bookmark
from evidence.reading import changes
from evidence.reading.changes import Standing

CONNECTIONS_WITHIN = 8
MARK_BYTES = 6
NUMBER_BYTES = 5
HANDLE_BYTES = 16
NOTHING = 256**NUMBER_BYTES - 1


def bookmark(reaches: Mapping[str, Reach], *, owner_id: str, now: datetime) -> str:
    """The text that ``recalled`` reads; one query where it has to be stored."""
    content = b"".join(_packed(each, reaches[each]) for each in sorted(reaches))
    if len(reaches) <= CONNECTIONS_WITHIN:
        return "v" + base64.b64encode(content).decode()
    key = key_for("bookmark")
    handle = hashlib.blake2b(
        owner_id.encode() + b"/" + content, digest_size=HANDLE_BYTES, key=key
    ).digest()
    row = Bookmark(handle=handle, owner_id=owner_id, content=content, used_at=now)
    Bookmark.unscoped.bulk_create(
        [row], update_conflicts=True, unique_fields=["handle"], update_fields=["used_at"]
    )
    return "h" + base64.b64encode(handle).decode()


def length(connections: int) -> int:
    """How long the text is for so many."""
    within = connections <= CONNECTIONS_WITHIN
    packed = connections * (MARK_BYTES + 3 * NUMBER_BYTES) if within else HANDLE_BYTES
    return 1 + -(-packed // 3) * 4


def recalled(text: str, *, owner_id: str, connection_ids: Sequence[str]) -> dict[str, Reach]:
    """The reach of each connection that the bookmark knows of.

    Raises ``CursorExpired`` when it is no longer stored, or names a connection that is not among
    ``connection_ids``: what came through that one has gone all at once.
    """
    content = base64.b64decode(text[1:])
    if text[0] == "h":
        content = _stored(content, owner_id)
    marked = {_mark(each): each for each in connection_ids}
    size = MARK_BYTES + 3 * NUMBER_BYTES
    found: dict[str, Reach] = {}
    for start in range(0, len(content), size):
        mark, numbers = content[start:][:MARK_BYTES], content[start:][MARK_BYTES:size]
        if mark not in marked:
            raise CursorExpired(message="A connection that the bookmark speaks of has gone.")
        found[marked[mark]] = _unpacked(numbers)
    return found


def forget_bookmarks(*, unused_since: datetime) -> int:
    """Deletes stored bookmarks that nobody was given or gave back since; how many."""
    return Bookmark.unscoped.filter(used_at__lt=unused_since).delete()[0]


def _stored(handle: bytes, owner_id: str) -> bytes:
    rows = Bookmark.unscoped.filter(handle=handle, owner_id=owner_id)
    content = rows.values_list("content", flat=True).first()
    if content is None:
        raise CursorExpired(message="The bookmark is older than what is kept.")
    return bytes(content)


def _packed(connection_id: str, reach: Reach) -> bytes:
    numbers = (reach.since, reach.known, reach.until)
    return _mark(connection_id) + b"".join(
        (NOTHING if number is None else number).to_bytes(NUMBER_BYTES, "big") for number in numbers
    )


def _unpacked(numbers: bytes) -> Reach:
    since, known, until = (
        int.from_bytes(numbers[start : start + NUMBER_BYTES], "big")
        for start in range(0, 3 * NUMBER_BYTES, NUMBER_BYTES)
    )
    return Reach(
        since=None if since == NOTHING else since,
        known=known,
        until=None if until == NOTHING else until,
    )


def _mark(connection_id: str) -> bytes:
    return hashlib.blake2b(connection_id.encode(), digest_size=MARK_BYTES).digest()


BEGINNING = "beginning"
KIND = "changes"


@dataclass(frozen=True, slots=True)
class Followed:
    """A stream as somebody follows it: over all its connections, or only one."""

    scope: Scope
    visible: VisibleRecords
    connection_id: str | None

    def opened(self, text: str) -> Standing:
        """Where the bookmark leaves off. Raises ``InvalidCursor`` and ``CursorExpired``."""
        if text == BEGINNING:
            return changes.beginning(self.visible)
        place = cursors.unseal(
            text, KIND, scope=self.scope, query=self._query, param="changes_since"
        )
        return self.recalled(place)

    def sealed(self, standing: Standing, *, now: datetime) -> str:
        """The bookmark; one query where more than eight connections are followed."""
        place = self.kept(standing, now=now)
        return cursors.seal(KIND, scope=self.scope, query=self._query, place=place)

    def longest(self, standing: Standing, *, told: Iterable[changes.Told]) -> int:
        """How long the longest bookmark is of those after each that is told."""
        text = "v" * length(len(self.visible.connections))
        ends = [[each.connection.connection_id, each.record_key] for each in told]
        longest = max(ends, key=lambda end: len("".join(end)), default=None)
        place = _place(standing, text) | {"a": longest}
        return cursors.length(KIND, query=self._query, place=place)

    def kept(self, standing: Standing, *, now: datetime) -> dict[str, Any]:
        """The standing as JSON, to be sealed, or stored where the server itself follows."""
        text = bookmark(standing.reaches, owner_id=self.scope.owner_id, now=now)
        return _place(standing, text)

    def recalled(self, place: Mapping[str, Any]) -> Standing:
        """What ``kept`` has made JSON of. Raises ``CursorExpired``."""
        reaches = recalled(
            place["v"],
            owner_id=self.scope.owner_id,
            connection_ids=[facts.connection_id for facts in self.visible.connections],
        )
        return Standing(
            reaches=reaches,
            times=place["m"],
            since_at=_moment(place["s"]),
            until_at=_moment(place["u"]),
            after=Place(*place["a"]) if place["a"] else None,
        )

    @property
    def _query(self) -> dict[str, Any]:
        return {
            "stream": [self.visible.source.connector_key, self.visible.stream.name],
            "connection_id": self.connection_id,
        }


def _place(standing: Standing, text: str) -> dict[str, Any]:
    after = standing.after
    return {
        "v": text,
        "m": standing.times,
        "s": _seconds(standing.since_at),
        "u": _seconds(standing.until_at),
        "a": [after.connection_id, after.record_key] if after else None,
    }


def _moment(seconds: int) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _seconds(moment: datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0
